package provision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

const (
	straggler = 10 * time.Second
	build     = 30 * time.Minute
)

// bench is a Provisioner with a simulated cloud and a simulated Terraform, without Slurm, SSH and Ansible.
type bench struct {
	*testing.T
	*simulate.World
	cluster     reconfigure.Cluster
	provisioner *provision.Provisioner
	end         context.CancelFunc
	killed      func(call string) bool // whether Terraform is killed in a call; nil: it is not
	ports       int                    // the ports that the cloud says are free; it has none for kept ports

	lock   sync.Mutex
	jobs   nodeset.NodeSet // nodes on which a job runs
	silent error           // why Slurm does not answer
	noRoom nodeset.NodeSet // nodes without room
}

// test runs in a synctest bubble. The group has the nodes p1 to p8.
func test(t *testing.T, do func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
		cluster := reconfigure.Cluster{
			Name:     "test",
			Control:  reconfigure.Control{Name: "ctl", Source: source},
			Groups:   []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Max: 8}},
			Settings: reconfigure.Settings{Interrupt: true, LockTimeout: time.Minute},
		}
		world := simulate.NewWorld(cluster)
		deps := world.Deps()
		b := &bench{T: t, World: world, cluster: cluster}
		world.Have("ctl")
		ctx, end := context.WithCancel(t.Context())
		b.end = end
		var under sync.WaitGroup
		b.provisioner = provision.New(ctx, provision.Config{
			Timing: provision.Timing{
				Poll: time.Second, Quiet: 300 * time.Millisecond, Longest: 3 * time.Second, Preview: 5 * time.Minute,
				Straggler: straggler, Build: build,
			},
			Under: &under,
			Using: func() (reconfigure.Cluster, provision.Deps) {
				return b.cluster, provision.Deps{Terraform: func(shard string) provision.Terraform {
					return mortal{deps.Provisioner(shard), b}
				}, Cloud: deps.Cloud, Quota: deps.Quota, FreePorts: func(context.Context) (int, error) { return b.ports, nil }}
			},
			States: b.states, Servers: world.Servers, Found: func(map[string]reconfigure.Instance) {},
			NoRoom: func(refused reconfigure.Failures) {
				b.lock.Lock()
				defer b.lock.Unlock()
				b.noRoom = b.noRoom.Union(refused.Nodes())
			},
			Flush: func(context.Context) {}, Note: func(map[int64]bool, string) {},
		})
		do(b)
		end()
		under.Wait()
		b.want("clashes", 0, len(b.Clashes()))
		b.want("doubled instances", 0, len(b.Doubled()))
	})
}

// mortal is a Terraform that may be killed in calls that change nothing in the cloud.
type mortal struct {
	provision.Terraform
	*bench
}

var errKilled = errors.New("signal: killed")

func (m mortal) dies(call string) bool { return m.killed != nil && m.killed(call) }

func (m mortal) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	if m.dies("preview of " + p.String()) {
		return reconfigure.Preview{}, errKilled
	}
	return m.Terraform.Preview(ctx, p)
}

func (m mortal) Apply(ctx context.Context, p reconfigure.Preview, watch provision.Watch, interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	if m.dies("apply of " + p.Plan.String()) {
		return nil, errors.Join(errKilled, m.Discard(p))
	}
	if p.Plan.KeptPorts { // Terraform begins no instance, since a port has failed
		failures := reconfigure.Failures{}
		for node := range p.Plan.Desired {
			if failures[node] = errors.New("no port"); p.Plan.Nodes().Contains(node) {
				failures[node] = fmt.Errorf("%w, since another failed", reconfigure.ErrUntried)
			}
		}
		return failures, m.Discard(p)
	}
	return m.Terraform.Apply(ctx, p, watch, interrupt)
}

func (m mortal) Adopt(ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server) (
	nodeset.NodeSet, reconfigure.Failures, error,
) {
	if m.dies("adopt") {
		return nodeset.NodeSet{}, nil, errKilled
	}
	return m.Terraform.Adopt(ctx, p, servers)
}

func (b *bench) states(context.Context, nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	states := map[string]reconfigure.NodeState{}
	for node := range b.jobs.All() {
		states[node] = reconfigure.NodeState{Node: node, Flags: reconfigure.NodeAllocated, Busy: true}
	}
	return states, b.silent
}

// job starts a job on a node.
func (b *bench) job(node string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.jobs = b.jobs.Union(nodeset.Of(node))
}

func (b *bench) want(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// target is a node with a change for the declared spec.
func (b *bench) target(a reconfigure.Action, node string) provision.Target {
	c := reconfigure.Change{
		Node: node, Action: a, Reason: "test", Requests: []reconfigure.RequestID{1}, Since: time.Now(), Spec: b.Spec(node),
	}
	if a == reconfigure.Remove {
		return provision.Target{Change: c, Plan: 1}
	}
	return provision.Target{Change: c, Entry: &c.Spec, Plan: 1}
}

func (b *bench) creates(node string) provision.Order {
	return provision.Make{Target: b.target(reconfigure.Create, node)}
}

func (b *bench) replaces(node string) provision.Order {
	return provision.Make{Target: b.target(reconfigure.Replace, node)}
}

// rebuilds replaces the disk of an instance by one of another image.
func (b *bench) rebuilds(node string) provision.Order {
	t := b.target(reconfigure.Replace, node)
	t.Change.Spec.ImageID, t.Entry.ImageID = "id-of-v2", "id-of-v2"
	return provision.Make{Target: t}
}

func (b *bench) removes(node string) provision.Order {
	return provision.Remove{Target: b.target(reconfigure.Remove, node)}
}

func (b *bench) takes(node string) provision.Order {
	return provision.Take{Target: b.target(reconfigure.Adopt, node)}
}

func (b *bench) forgets(node string) provision.Order {
	return provision.Forget{Target: b.target(reconfigure.Remove, node)}
}

// asked is an order under way.
type asked struct {
	came    chan struct{} // closed with the result
	result  provision.Result
	err     error
	after   time.Duration // until the result
	settled chan struct{} // closed with Terraform's own verdict
	verdict error
	settles time.Duration // until that verdict

	lock   sync.Mutex
	events []provision.Event
}

// asks begins an order. Its caller waits until ctx ends.
func (b *bench) asks(ctx context.Context, order provision.Order) *asked {
	a := &asked{came: make(chan struct{}), settled: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(a.settled)
		a.result, a.err = b.provisioner.In("").Do(ctx, order, func(e provision.Event) {
			a.lock.Lock()
			defer a.lock.Unlock()
			a.events = append(a.events, e)
		})
		a.after = time.Since(began)
		close(a.came)
		if a.result.Settled == nil {
			return
		}
		select {
		case a.verdict = <-a.result.Settled:
			a.settles = time.Since(began)
		case <-ctx.Done():
		}
	}()
	return a
}

// all begins orders at once, and waits until they are settled.
func (b *bench) all(orders ...provision.Order) (all []*asked) {
	for _, order := range orders {
		all = append(all, b.asks(b.Context(), order))
	}
	for _, a := range all {
		<-a.settled
	}
	return all
}

// has reports whether the order had an event like this one.
func (a *asked) has(event provision.Event) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return slices.ContainsFunc(a.events, func(e provision.Event) bool { return cmp.Equal(e, event) })
}

// finished checks that Terraform's state has the finished instance of a node, and nothing else is left of it.
func (b *bench) finished(node string) {
	b.Helper()
	n := b.Node(node)
	if n.Instance.ID == "" || n.Instance.Tainted || n.Made != n.Spec {
		b.Errorf("%s is %+v", node, n)
	}
}

// A caller has its result when the cloud has the instance, and Terraform's own verdict when Terraform has ended.
func TestResultComesBeforeTerraformEnds(t *testing.T) {
	for name, order := range map[string]func(*bench) provision.Order{
		"a creation":    func(b *bench) provision.Order { return b.creates("p3") },
		"a rebuild":     func(b *bench) provision.Order { b.Have("p3"); return b.rebuilds("p3") },
		"a replacement": func(b *bench) provision.Order { b.Have("p3"); return b.replaces("p3") },
		"a removal":     func(b *bench) provision.Order { b.Have("p3"); return b.removes("p3") },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(b *bench) {
				b.cluster.Settings.Interrupt = false
				order := order(b)
				a := b.all(order)[0]
				_, removes := order.(provision.Remove)
				b.want("error", nil, errors.Join(a.err, a.verdict))
				b.want("it has an instance", !removes, a.result.Instance.ID != "")
				b.want("calls", 1, len(b.Calls()))
				if name == "a replacement" { // Terraform posts the new instance only after it has seen the removal
					return
				}
				if a.after > 3*time.Second || a.settles < 10*time.Second {
					b.Errorf("the result came after %s, Terraform's verdict after %s", a.after, a.settles)
				}
			})
		})
	}
}

// Terraform is interrupted when the cloud has all instances as asked. Its state has them all the same.
func TestInterruptedRunIsAdopted(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p5", "p6", "p7")
		all := b.all(b.creates("p3"), b.removes("p5"), b.rebuilds("p6"), b.replaces("p7"))
		for i, a := range all {
			if a.err != nil || a.verdict != nil || a.settles > 6*time.Second {
				b.Errorf("%d: after %s: %v, after %s: %v", i, a.after, a.err, a.settles, a.verdict)
			}
			if !a.has(provision.Begun{Changes: i != 1}) {
				b.Errorf("%d: the events are %v", i, a.events)
			}
		}
		b.want("calls", []string{
			"apply create p3, delete p5, rebuild p6, replace p7", "adopt p[3,6]", "apply create p7", "adopt p7",
		}, b.Calls())
		for _, node := range []string{"p3", "p6", "p7"} {
			b.finished(node)
		}
		b.want("the removed node", reconfigure.Instance{}, b.Node("p5").Instance)
		b.want("orphans", 0, len(b.Orphans()))
	})
}

// Terraform is killed when its state is updated after the interrupt. That is repeated, since each caller has its
// result.
func TestAKilledUpdateOfTheStateIsRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		order func(*bench) provision.Order
		call  string
	}{
		"after a creation": {func(b *bench) provision.Order { return b.creates("p3") }, "adopt"},
		"after a removal":  {func(b *bench) provision.Order { return b.removes("p5") }, "preview of destroy p5"},
		"in its own run":   {func(b *bench) provision.Order { return b.removes("p5") }, "apply of destroy p5"},
	} {
		for _, kills := range []int{1, 2, 100} {
			t.Run(fmt.Sprintf("%s, %d times", name, kills), func(t *testing.T) {
				test(t, func(b *bench) {
					b.Have("p5")
					calls := 0
					b.killed = func(call string) bool {
						if call != tc.call {
							return false
						}
						calls++
						if call != "adopt" { // the first one is before the interrupt
							return calls > 1 && calls <= kills+1
						}
						return calls <= kills
					}
					a := b.all(tc.order(b))[0]
					b.want("error", nil, a.err)
					if kills == 100 {
						b.want("the verdict on the state", true, errors.Is(a.verdict, errKilled))
						return
					}
					b.want("the verdict on the state", nil, a.verdict)
					b.want("the removed node", tc.call == "adopt", b.Node("p5").Instance.ID != "")
					if tc.call == "adopt" {
						b.finished("p3")
					}
				})
			})
		}
	}
}

// Without a proof by an empty plan, Terraform's state stays as it is, and the verdict says so after the result.
func TestInstanceWithoutAProofIsDeliveredAndNotAdopted(t *testing.T) {
	test(t, func(b *bench) {
		b.Order(simulate.NotProven, "p3")
		a := b.all(b.creates("p3"))[0]
		if a.err != nil || a.verdict == nil || !strings.Contains(a.verdict.Error(), "could not be imported") {
			b.Errorf("the result is %v, the verdict %v", a.err, a.verdict)
		}
		b.want("tainted", true, b.Node("p3").Instance.Tainted)
	})
}

// A node that does not come delays no other: those of its run are done, and the next run begins soon.
func TestStragglerIsFollowedBesideTheNextRun(t *testing.T) {
	for name, tc := range map[string]struct {
		takes  simulate.Doing
		long   time.Duration
		order  func(*bench) provision.Order
		failed string // empty: it succeeds
	}{
		"a minute in BUILD": {
			takes: simulate.Building, long: time.Minute,
			order: func(b *bench) provision.Order { return b.creates("p3") },
		},
		"for ever in BUILD": {
			takes: simulate.Building, long: simulate.Forever,
			order:  func(b *bench) provision.Order { return b.creates("p3") },
			failed: "its instance is not ACTIVE after 30m0s",
		},
		"a rebuild of a minute": {
			takes: simulate.Building, long: time.Minute,
			order: func(b *bench) provision.Order { b.Have("p3"); return b.rebuilds("p3") },
		},
		"a removal of a minute": {
			takes: simulate.Removing, long: time.Minute,
			order: func(b *bench) provision.Order { b.Have("p3"); return b.removes("p3") },
		},
		"a replacement whose removal takes a minute": {
			takes: simulate.Removing, long: time.Minute,
			order: func(b *bench) provision.Order { b.Have("p3"); return b.replaces("p3") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(b *bench) {
				order := tc.order(b)
				b.Takes(tc.takes, tc.long, "p3")
				slow, other := b.asks(b.Context(), order), b.asks(b.Context(), b.creates("p4"))
				time.Sleep(5 * time.Second)
				next := b.asks(b.Context(), b.creates("p5"))
				<-slow.settled
				<-other.settled
				<-next.settled
				for which, a := range map[string]*asked{"of its run": other, "of the next": next} {
					if a.err != nil || a.verdict != nil || a.after > 2*straggler {
						b.Errorf("the node %s: %v, %v after %s:\n%q", which, a.err, a.verdict, a.after, b.Calls())
					}
				}
				got := ""
				if slow.err != nil {
					got = slow.err.Error()
				}
				b.want("the straggler", tc.failed, got)
				if slow.err == nil && (slow.after < time.Minute || slow.after > time.Minute+2*straggler) {
					b.Errorf("it is done after %s", slow.after)
				}
				if _, removes := order.(provision.Remove); !removes && slow.err == nil {
					b.finished("p3")
				}
				b.want("orphans", 0, len(b.Orphans()))
			})
		})
	}
}

// Terraform is not interrupted while nobody waits, nor where the declaration forbids it.
func TestStragglerAloneIsNotInterrupted(t *testing.T) {
	for _, may := range []bool{true, false} {
		t.Run(fmt.Sprintf("interrupt is %v", may), func(t *testing.T) {
			test(t, func(b *bench) {
				b.cluster.Settings.Interrupt = may
				b.Takes(simulate.Building, time.Minute, "p3")
				slow := b.asks(b.Context(), b.creates("p3"))
				time.Sleep(time.Second)
				if !may { // another order waits
					next := b.asks(b.Context(), b.creates("p4"))
					defer func() {
						if <-next.came; next.after < 58*time.Second {
							b.Errorf("the next run began beside it: its node is done after %s", next.after)
						}
					}()
				}
				time.Sleep(50 * time.Second)
				b.want("calls", []string{"apply create p3"}, b.Calls())
				b.want("it is in BUILD", false, b.Node("p3").Instance.Tainted)
				<-slow.settled
				if slow.err != nil || slow.verdict != nil {
					b.Errorf("it is done after %s: %v, %v", slow.after, slow.err, slow.verdict)
				}
				b.finished("p3")
			})
		})
	}
}

// An instance that the cloud cannot make fails its own order alone, with the cloud's reason and its class.
func TestInstanceInErrorFailsItsOrderAlone(t *testing.T) {
	test(t, func(b *bench) {
		b.Order(simulate.NoValidHost, "p3")
		all := b.all(b.creates("p3"), b.creates("p4"))
		if err := all[0].err; err == nil || !strings.HasPrefix(err.Error(), "No valid host was found: ") ||
			reconfigure.ClassOf(err) != reconfigure.ClassCapacity {
			b.Errorf("p3: %v", err)
		}
		b.want("p4", nil, all[1].err)
		b.want("without room", nodeset.Of("p3"), b.noRoom)
	})
}

// A worker is killed, or Terraform is, before the state has the instance. The same order then imports it.
func TestInstanceOfAKilledRunIsImported(t *testing.T) {
	for _, half := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		t.Run(string(half), func(t *testing.T) {
			test(t, func(b *bench) {
				b.cluster.Settings.Interrupt = false
				order := b.creates("p3")
				time.Sleep(time.Second) // the cloud has no fractions of a second
				b.KillDuring(0, half)
				if a := b.all(order)[0]; a.err == nil {
					b.Fatal("Terraform was not killed")
				}
				id := b.IDs()["p3"]
				time.Sleep(time.Minute)
				a := b.all(order)[0]
				b.want("error", nil, a.err)
				b.want("instance", id, a.result.Instance.ID)
				b.want("calls", []string{"apply create p3", "adopt p3"}, b.Calls())
				b.finished("p3")
			})
		})
	}
}

// An instance that is older than the order, or is not as asked, is removed before another is made.
func TestUnknownInstanceIsRemovedBeforeAnotherIsMade(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3")
		old := b.IDs()["p3"]
		b.Forget("p3")
		time.Sleep(time.Minute)
		a := b.all(b.creates("p3"))[0]
		b.want("error", nil, a.err)
		if a.result.Instance.ID == old {
			b.Error("the old instance was taken")
		}
		b.finished("p3")
		b.want("orphans", 0, len(b.Orphans()))
	})
}

// TestForgetLeavesTheInstanceInTheCloud forgets two instances, one of them while the state is locked by somebody else.
func TestForgetLeavesTheInstanceInTheCloud(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3", "p4")
		ids := b.IDs()
		b.want("error", nil, b.all(b.forgets("p3"))[0].err)
		b.want("instance", ids["p3"], b.IDs()["p3"])
		b.want("p3 in the state", "", b.Node("p3").Instance.ID)
		b.want("calls", []string{"forget p3"}, b.Calls())
		b.Order(simulate.StateLocked)
		if err := b.all(b.forgets("p4"))[0].err; reconfigure.ClassOf(err) != reconfigure.ClassLocked {
			b.Errorf("while the state is locked: %v", err)
		}
		b.want("p4 in the state", ids["p4"], b.Node("p4").Instance.ID)
	})
}

// Take only imports: it neither makes an instance nor removes one.
func TestTakeMakesNothing(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3")
		id := b.IDs()["p3"]
		b.Forget("p3")
		all := b.all(b.takes("p3"), b.takes("p4"))
		b.want("error", nil, all[0].err)
		b.want("instance", id, all[0].result.Instance.ID)
		if all[1].err == nil || !strings.Contains(all[1].err.Error(), "the cloud has no instance of it") {
			b.Errorf("p4, which has none: %v", all[1].err)
		}
		b.want("calls", []string{"adopt p3"}, b.Calls())
		b.Order(simulate.CloudSilent)
		if err := b.all(b.takes("p5"))[0].err; err == nil || !strings.Contains(err.Error(), "it is unknown whether") {
			b.Errorf("while the cloud is silent: %v", err)
		}
	})
}

// The fence refuses a run because of one node. The others are carried out.
func TestFenceRefusesOneNode(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3", "p4")
		b.Order(simulate.OtherTags, "p3")
		stops := func(node string) provision.Order {
			t := b.target(reconfigure.Stop, node)
			t.Change.Spec.Power, t.Entry.Power = reconfigure.PowerOff, reconfigure.PowerOff
			return provision.Make{Target: t}
		}
		all := b.all(stops("p3"), stops("p4"))
		if refusal := (*reconfigure.Refusal)(nil); !errors.As(all[0].err, &refusal) {
			b.Errorf("p3: %v", all[0].err)
		}
		b.want("p4", nil, all[1].err)
		b.want("first call", "apply stop p4", b.Calls()[0])
	})
}

// A plan that would change a node that nobody asked for fails all of its orders, and nothing is changed.
func TestFenceRefusesAChangeThatWasNotAskedFor(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p8")
		b.Order(simulate.OtherImage, "p8")
		for i, a := range b.all(b.creates("p3"), b.creates("p4")) {
			if reconfigure.ClassOf(a.err) != reconfigure.ClassRefused {
				b.Errorf("%d: %v", i, a.err)
			}
		}
		b.want("calls", 0, len(b.Calls()))
	})
}

// A node that cannot be planned leaves the run.
func TestNodeThatCannotBePlannedLeavesTheRun(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3", "p4")
		b.Order(simulate.Unreadable, "p3")
		all := b.all(b.rebuilds("p3"), b.rebuilds("p4"))
		if all[0].err == nil || all[1].err != nil {
			b.Errorf("p3: %v; p4: %v", all[0].err, all[1].err)
		}
		b.want("first call", "apply rebuild p4", b.Calls()[0])
	})
}

// The guard asks Slurm after Terraform has planned, and before Terraform changes anything.
func TestGuardKeepsAnInstanceWithAJob(t *testing.T) {
	for name, order := range map[string]func(*bench, string) provision.Order{
		"a rebuild":     func(b *bench, node string) provision.Order { return b.rebuilds(node) },
		"a replacement": func(b *bench, node string) provision.Order { return b.replaces(node) },
		"a removal":     func(b *bench, node string) provision.Order { return b.removes(node) },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(b *bench) {
				b.Have("p3", "p4")
				id := b.IDs()["p3"]
				b.Then(simulate.AfterPreview, func() { b.job("p3") })
				all := b.all(order(b, "p3"), order(b, "p4"))
				if err := all[0].err; reconfigure.ClassOf(err) != reconfigure.ClassRefused ||
					!strings.Contains(err.Error(), "a job runs on it") || !all[0].has(provision.LeftAlone{}) {
					b.Errorf("p3: %v, events %v", err, all[0].events)
				}
				b.want("p4", nil, all[1].err)
				b.want("instance of p3", id, b.IDs()["p3"])
				b.want("p4 was left alone", false, all[1].has(provision.LeftAlone{}))
			})
		})
	}
}

func TestGuardWithoutAnAnswerOfSlurm(t *testing.T) {
	test(t, func(b *bench) {
		b.Have("p3", "p4")
		b.silent = errors.New("slurmctld does not answer")
		forced := b.target(reconfigure.Remove, "p4")
		forced.Change.Force = true
		all := b.all(b.removes("p3"), provision.Remove{Target: forced}, b.creates("p5"))
		if err := all[0].err; reconfigure.ClassOf(err) != reconfigure.ClassRefused || !errors.Is(err, b.silent) {
			b.Errorf("p3: %v", err)
		}
		b.want("p4, with force", nil, all[1].err)
		b.want("p5, which is new", nil, all[2].err)
		b.want("p3 is there", true, b.IDs()["p3"] != "")
	})
}

// A node without room in the quota leaves the run, and Terraform is not asked for it.
func TestNodeWithoutRoomLeavesTheRun(t *testing.T) {
	test(t, func(b *bench) {
		b.Limit(reconfigure.Use{Instances: 2, Cores: -1, RAM: -1})
		all := b.all(b.creates("p3"), b.creates("p4"))
		b.want("p3", nil, all[0].err)
		b.want("p4", reconfigure.ClassQuota, reconfigure.ClassOf(all[1].err))
		b.want("without room", nodeset.Of("p4"), b.noRoom)
		b.want("first call", "apply create p3", b.Calls()[0])
	})
}

// While the cloud is silent, nothing is made: there may be an instance of the node already.
func TestNothingIsMadeWhileTheCloudIsSilent(t *testing.T) {
	test(t, func(b *bench) {
		b.Order(simulate.CloudSilent)
		a := b.all(b.creates("p3"))[0]
		if a.err == nil || !strings.Contains(a.err.Error(), "it is unknown whether there is an instance") {
			b.Errorf("the error is %v", a.err)
		}
		b.want("calls", 0, len(b.Calls()))
	})
}

// Another process has locked the state. The run waits until the lock is free, or until the lock timeout.
func TestLockedStateIsWaitedFor(t *testing.T) {
	for _, until := range []time.Duration{20 * time.Second, time.Hour} {
		t.Run(until.String(), func(t *testing.T) {
			test(t, func(b *bench) {
				b.Order(simulate.StateLocked)
				free := time.AfterFunc(until, func() { b.Clear(simulate.StateLocked) })
				defer free.Stop()
				a := b.all(b.creates("p3"))[0]
				b.want("it fails", until > time.Minute, a.err != nil)
				if a.after < min(until, time.Minute) || a.after > min(until, time.Minute)+5*time.Second {
					b.Errorf("after %s: %v", a.after, a.err)
				}
			})
		})
	}
}

// A caller that has left does not hold up the others, and gets the cause.
func TestCallerThatHasLeftDelaysNobody(t *testing.T) {
	test(t, func(b *bench) {
		b.Takes(simulate.Building, simulate.Forever, "p3")
		why := errors.New("it is not needed any more")
		ctx, leave := context.WithCancelCause(b.Context())
		left, other := b.asks(ctx, b.creates("p3")), b.asks(b.Context(), b.creates("p4"))
		time.Sleep(3 * time.Second)
		leave(why)
		<-left.came
		b.want("the cause", true, errors.Is(left.err, why))
		<-other.settled
		b.want("the other", nil, other.err)
		if other.settles > straggler {
			b.Errorf("the other is settled after %s", other.settles)
		}
	})
}

// Somebody else takes the quota meanwhile.
func TestRefusedKeptPortsDoNotHoldBackInstances(t *testing.T) {
	test(t, func(b *bench) {
		b.ports = 3
		entry := b.Spec("p3")
		port, _ := entry.PortOnly()
		shared := b.asks(b.Context(), provision.Shared{
			Plan: 1, Desired: map[string]reconfigure.Spec{"ctl": b.Spec("ctl"), "p3": entry, "p4": port}, Changed: nodeset.Of("p3"),
			Awaited: func() nodeset.NodeSet { return nodeset.Of("p3") },
		})
		node := b.asks(b.Context(), b.creates("p3"))
		<-node.settled
		<-shared.settled
		b.want("errors", nil, errors.Join(shared.err, node.err, node.verdict))
		b.want("calls", []string{"apply create p3", "adopt p3"}, b.Calls())
	})
}

// The shared resources and the nodes that they refer to are in one run.
func TestSharedWaitsForItsNodes(t *testing.T) {
	test(t, func(b *bench) {
		awaited := nodeset.Of("p3")
		var lock sync.Mutex
		entry := b.Spec("p3")
		shared := b.asks(b.Context(), provision.Shared{
			Plan: 1, Desired: map[string]reconfigure.Spec{"ctl": b.Spec("ctl"), "p3": entry}, Changed: nodeset.Of("p3"),
			Awaited: func() nodeset.NodeSet {
				lock.Lock()
				defer lock.Unlock()
				return awaited
			},
		})
		time.Sleep(time.Minute)
		select {
		case <-shared.came:
			b.Error("it has ended before the node's order")
		default:
		}
		node := b.asks(b.Context(), b.creates("p3"))
		<-node.settled
		<-shared.settled
		b.want("errors", nil, errors.Join(shared.err, node.err, node.verdict))
		b.want("runs of Terraform", 1, len(slices.DeleteFunc(b.Calls(), func(call string) bool {
			return !strings.HasPrefix(call, "apply ")
		})))
	})
}
