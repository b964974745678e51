package operation_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// resting runs a test whose group stops idle nodes. A job had p3 and p4 made, and they are stopped; what was called by
// then is left out of the calls.
func resting(t *testing.T, way reconfigure.WhenIdle, do func(l *lab)) {
	t.Helper()
	test(t, func(l *lab) {
		l.cluster.Groups[0].WhenIdle, l.cluster.Groups[0].MaxStopped = way, 8
		l.Declare(l.cluster)
		l.PowersUp("p3", "p4")
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p3", "p4")})
		l.wantDone("p3", "p4")
		l.suspended("p3", "p4")
		l.wantDone("p3", "p4")
		for _, node := range []string{"p3", "p4"} {
			n := l.Node(node)
			l.want("what the cloud and Terraform have of "+node, []reconfigure.Power{way.Power(), way.Power()},
				[]reconfigure.Power{n.Made.Power, n.Spec.Power})
		}
		time.Sleep(time.Minute) // so that a boot from now on is another one
		do(l)
	})
}

// suspended lets Slurm power nodes down, and plans it.
func (l *lab) suspended(nodes ...string) {
	l.Helper()
	for _, node := range nodes {
		l.EndJob(node)
	}
	l.PowersDown(nodes...)
	l.asks(reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodeset.Of(nodes...)})
}

// resumed lets Slurm power nodes up, and plans it.
func (l *lab) resumed(nodes ...string) {
	l.Helper()
	l.PoweredDown(nodes...)
	l.PowersUp(nodes...)
	l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes...)})
}

// since returns the calls after those before.
func (l *lab) since(before int) []string { return l.Calls()[before:] }

func TestAStoppedNodeIsStartedWithoutPlaybooks(t *testing.T) {
	for _, way := range []reconfigure.WhenIdle{reconfigure.IdleStop, reconfigure.IdleShelve} {
		t.Run(string(way), func(t *testing.T) {
			resting(t, way, func(l *lab) {
				before, was := len(l.Calls()), l.Node("p3").Instance
				l.resumed("p3")
				l.wantDone("p3")
				calls := l.since(before)
				slices.Sort(calls[min(1, len(calls)):]) // the node and Terraform's state go on at the same time
				l.want("calls", []string{"apply start p3", "adopt p3", "start slurmd on p3"}, calls)
				n := l.Node("p3")
				was.Made.Power = ""
				l.want("its instance", was, n.Instance)
				l.want("its entry", reconfigure.Power(""), n.Spec.Power)
				l.want("its job runs", "ALLOCATED+CLOUD", n.State)
				l.want("the other one", way.Power(), l.Node("p4").Spec.Power)
				if took := l.round.after["p3"]; took > 5*time.Second {
					l.Errorf("it took %s, although the provider's wait is not awaited", took)
				}
			})
		})
	}
}

// slowSums counts the calls of Sums. A call takes so long that those who come meanwhile wait.
type slowSums struct {
	operation.Configurer
	calls atomic.Int64
}

func (s *slowSums) Sums(
	c reconfigure.Cluster, instances map[string]reconfigure.Instance, nodes nodeset.NodeSet,
) (map[string]string, error) {
	s.calls.Add(1)
	time.Sleep(10 * time.Second)
	return s.Configurer.Sums(c, instances, nodes)
}

// TestChecksumsOfManyNodesAreComputedTogether has six nodes: one call for the first that asks, one for all others.
func TestChecksumsOfManyNodesAreComputedTogether(t *testing.T) {
	test(t, func(l *lab) {
		l.cluster.Groups[0].WhenIdle, l.cluster.Groups[0].MaxStopped = reconfigure.IdleStop, 8
		l.Declare(l.cluster)
		slow := &slowSums{Configurer: l.deps.Configurer}
		l.deps.Configurer = slow
		nodes := []string{"p3", "p4", "p5", "p6", "p7", "p8"}
		l.PowersUp(nodes...)
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes...)})
		l.wantDone(nodes...)
		l.want("calls at most, with one before the playbooks", true, slow.calls.Load() <= 3)
		for _, node := range nodes {
			if sum, err := l.Sum(l.Context(), node); sum == "" || err != nil {
				l.Errorf("the checksum of %s is %q, error %v", node, sum, err)
			}
		}
		l.suspended(nodes...)
		l.wantDone(nodes...)
		time.Sleep(time.Minute)
		before, calls := slow.calls.Load(), len(l.Calls())
		l.resumed(nodes...)
		l.wantDone(nodes...)
		l.want("calls at most for the next start", true, slow.calls.Load()-before <= 2)
		l.want("playbooks", false, strings.Contains(strings.Join(l.since(calls), "\n"), "configure"))
	})
}

func TestPlaybooksRunOnAStoppedNodeWhereSomethingChanged(t *testing.T) {
	for name, change := range map[string]func(l *lab){
		"the declaration":                  func(l *lab) { l.cluster.Groups[0].Slurm = map[string]string{"weight": "2"} },
		"slurmd cannot be started without": func(l *lab) { l.Order(simulate.NoSlurmd, "p3") },
		"nothing is known":                 func(l *lab) { _ = l.KeepSums(l.Context(), map[string]string{"p3": ""}) },
	} {
		t.Run(name, func(t *testing.T) {
			resting(t, reconfigure.IdleStop, func(l *lab) {
				before := len(l.Calls())
				change(l)
				l.restart()
				l.Declare(l.cluster)
				l.resumed("p3")
				l.wantDone("p3")
				l.want("calls", []string{"apply start p3", "adopt p3", "configure p3 of ctl,p[1-3]"}, l.since(before))
				before = len(l.Calls())
				l.suspended("p3")
				l.wantDone("p3")
				l.Clear(simulate.NoSlurmd)
				l.resumed("p3")
				l.wantDone("p3")
				l.wantOrder("start slurmd on p3")
				l.want("playbooks after the next stop", false,
					strings.Contains(strings.Join(l.since(before), "\n"), "configure"))
			})
		})
	}
}

// TestARunOnTheControlNodeMakesTheConfigurationUnknown where several control hosts share a journal: the checksums do
// not have what the control node gives, which such a run may change.
func TestARunOnTheControlNodeMakesTheConfigurationUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		journal string
		changed string
		begin   func(*lab)
		known   bool // the checksums afterwards
	}{
		"the control node":             {"postgres://db", "ctl", func(*lab) {}, false},
		"slurm.conf everywhere":        {"postgres://db", "p1", func(l *lab) { l.plan.Everywhere = true }, false},
		"another node":                 {"postgres://db", "p1", func(*lab) {}, true},
		"the control node of one host": {"", "ctl", func(*lab) {}, true},
		"the control node, without an answer": {"postgres://db", "ctl",
			func(l *lab) { l.Order(simulate.BrokenPlaybook) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			resting(t, reconfigure.IdleStop, func(l *lab) {
				l.cluster.Settings.Journal = tc.journal
				l.restart()
				l.plan = reconfigure.Plan{}
				l.wants(reconfigure.Configure, tc.changed)
				l.plan.Desired = l.observe().Desired
				tc.begin(l)
				l.carry()
				for _, node := range []string{"p3", "p4"} {
					if sum, err := l.Sum(l.Context(), node); (sum != "") != tc.known || err != nil {
						l.Errorf("the checksum of %s is %q, error %v", node, sum, err)
					}
				}
			})
		})
	}
}

// TestTheControlNodeIsNotChangedWhileTheChecksumsCannotBeForgotten, since stopped nodes would start with what it gave
// before.
func TestTheControlNodeIsNotChangedWhileTheChecksumsCannotBeForgotten(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.cluster.Settings.Journal = "postgres://db"
		l.deps.Sums = lostSums{l.deps.Sums}
		l.restart()
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Configure, "ctl")
		l.plan.Desired = l.observe().Desired
		before := len(l.Calls())
		l.wantVerdicts(map[string]string{"ctl": "failed configure: the playbooks do not run, since the checksums of the " +
			"stopped nodes cannot be forgotten: no connection"})
		l.want("calls", []string{}, l.since(before))
	})
}

// lostSums keeps nothing.
type lostSums struct{ operation.SumStore }

func (lostSums) KeepSums(context.Context, map[string]string) error {
	return errors.New("no connection")
}

func TestAFailedPlaybookMakesTheConfigurationUnknown(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.resumed("p3")
		l.wantDone("p3")
		l.Order(simulate.PlaybookFails, "p3")
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Configure, "p3")
		l.plan.Desired = l.observe().Desired
		l.carry()
		if sum, err := l.Sum(l.Context(), "p3"); sum != "" || err != nil {
			l.Errorf("its checksum is %q, error %v", sum, err)
		}
	})
}

func TestADriftedNodeIsReplacedAtItsResume(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		before, was := len(l.Calls()), l.Node("p3").Instance
		l.cluster = l.cluster.WithImage("group", "v2")
		l.restart()
		l.Declare(l.cluster)
		l.resumed("p3")
		l.wantDone("p3")
		l.want("calls", []string{
			"apply replace p3", "apply create p3", "adopt p3", "configure p3 of ctl,p[1-3]",
		}, l.since(before))
		n := l.Node("p3")
		l.want("another instance", true, n.Instance.ID != was.ID)
		l.want("made of", n.Spec, n.Made)
		l.want("image", "id-of-v2", n.Made.ImageID)
	})
}

// Slurm may start a job after the plan.
func TestAJobForbidsTheStop(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.resumed("p3")
		l.wantDone("p3")
		l.suspended("p3")
		before := len(l.Calls())
		l.Then(simulate.AfterPreview, func() { l.PowersUp("p3"); l.Rejoins("p3") })
		l.wantVerdicts(map[string]string{"p3": "failed apply: left alone: a job runs on it"})
		l.want("calls", []string(nil), append([]string(nil), l.since(before)...))
		l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("lost", 0, len(l.Lost()))
	})
}

func TestAnInstanceThatCannotBeStoppedIsRemoved(t *testing.T) {
	for _, fault := range []simulate.Fault{simulate.StopFails, simulate.OtherTags, simulate.Unreadable} {
		t.Run(string(fault), func(t *testing.T) {
			resting(t, reconfigure.IdleStop, func(l *lab) {
				l.resumed("p3", "p4")
				l.wantDone("p3", "p4")
				l.Order(fault, "p3")
				l.suspended("p3", "p4")
				said := l.carry()
				if !strings.HasPrefix(said["p3"], "done : it could not be stopped, and was removed") || said["p4"] != "done" {
					l.Errorf("%v", said)
				}
				l.want("instance", "", l.Node("p3").Instance.ID)
				l.want("the other one", reconfigure.PowerOff, l.Node("p4").Made.Power)
			})
		})
	}
}

// shelving is a cloud that leaves an image of an instance that is deleted while it is shelved.
type shelving struct {
	operation.Cloud
	err   error
	asked []string // the instances whose images were removed
}

func (s *shelving) RemoveShelvedImage(_ context.Context, i reconfigure.Instance) (string, error) {
	s.asked = append(s.asked, i.ID)
	return i.Node + "-shelved", s.err
}

// A shelve that hangs ends after its own limit; what it has left goes with the instance, or is named.
func TestAShelveThatHangsIsRemovedWithItsImage(t *testing.T) {
	for _, failure := range []error{nil, errors.New("403 Forbidden")} {
		resting(t, reconfigure.IdleShelve, func(l *lab) {
			l.resumed("p3")
			l.wantDone("p3")
			cloud := &shelving{Cloud: l.deps.Cloud, err: failure}
			l.deps.Cloud = cloud
			l.restart()
			l.Takes(simulate.Switching, simulate.Forever, "p3")
			l.Takes(simulate.ProviderTimeout, 3*time.Hour)
			id, began := l.Node("p3").Instance.ID, time.Now()
			l.suspended("p3")
			said := l.carry()["p3"]
			if d := time.Since(began); d < 30*time.Minute || d > 45*time.Minute {
				l.Errorf("it took %s", d)
			}
			want := "done : it could not be stopped, and was removed: instance " + id + " is not shelved after 30m0s"
			if failure != nil {
				want += "; an image of it, p3-shelved, may be left in the cloud: 403 Forbidden"
			}
			l.want("verdict", want, said)
			l.want("images removed", []string{id}, cloud.asked)
			l.want("instance", "", l.Node("p3").Instance.ID)
		})
	}
}

func TestAnInstanceThatCannotBeStartedIsMadeAnew(t *testing.T) {
	for fault, nodes := range map[simulate.Fault][]string{
		simulate.StartFails: {"p3", "p4"}, simulate.OtherTags: {"p3", "p4"}, simulate.NoSSH: {"p3"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			resting(t, reconfigure.IdleStop, func(l *lab) {
				was, other := l.Node("p3").Instance.ID, l.Node("p4").Instance
				l.cluster.Settings.Retries = 1
				l.Declare(l.cluster)
				l.Order(fault, "p3")
				l.Then(simulate.AfterWait, func() { l.Clear(simulate.NoSSH) })
				l.resumed(nodes...)
				l.wantDone(nodes...)
				n := l.Node("p3")
				l.want("another instance", true, n.Instance.ID != was)
				l.want("its job runs", "ALLOCATED+CLOUD", n.State)
				l.want("orphans", 0, len(l.Orphans()))
				// The playbooks run on p4 if p3 has no address at that moment.
				if len(nodes) > 1 {
					l.want("the other instance", other.ID, l.Node("p4").Instance.ID)
				}
			})
		})
	}
}

func TestAStoppedInstanceThatIsGoneIsMadeAnew(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.Vanish("p3")
		l.resumed("p3")
		l.wantDone("p3")
		l.want("its job runs", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.wantNever("start slurmd on p3")
	})
}

// Slurm waits for a boot that is newer than its call.
func TestAnInstanceThatSomebodyHasStartedIsBootedAgain(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.Switch("p3", "")
		before := len(l.Calls())
		time.Sleep(time.Minute)
		l.resumed("p3")
		l.wantDone("p3")
		l.want("calls", []string{"apply what the refresh has found", "reboot p3", "start slurmd on p3"}, l.since(before))
		l.want("its job runs", "ALLOCATED+CLOUD", l.Node("p3").State)
	})
}

// A stop takes as long as the guest needs, and a shelve as its image: nobody waits for that.
func TestASlowStopDelaysNoOther(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.resumed("p3")
		l.wantDone("p3")
		l.Takes(simulate.Switching, 5*time.Minute, "p3")
		l.suspended("p3")
		slow := l.start()
		time.Sleep(time.Second)
		l.PowersUp("p5")
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p5")})
		l.wantDone("p5")
		if took := l.round.after["p5"]; took > 30*time.Second {
			l.Errorf("it took %s", took)
		}
		l.want("verdicts", map[string]string{"p3": "done"}, l.saidOf(slow))
		n := l.Node("p3")
		l.want("power", []reconfigure.Power{reconfigure.PowerOff, reconfigure.PowerOff},
			[]reconfigure.Power{n.Made.Power, n.Spec.Power})
	})
}

// saidOf waits for the verdicts of an earlier round.
func (l *lab) saidOf(r *round) map[string]string {
	l.Helper()
	said := map[string]string{}
	for node, v := range r.wait() {
		said[node] = string(v.Status)
	}
	return said
}

// planned is Terraform for one shard, and records the action that each plan has for a node.
type planned struct {
	operation.Provisioner
	node    string
	actions *[]reconfigure.Action
}

func (p planned) Preview(ctx context.Context, plan reconfigure.Plan) (reconfigure.Preview, error) {
	if c, ok := plan.Of(p.node); ok {
		*p.actions = append(*p.actions, c.Action)
	}
	return p.Provisioner.Preview(ctx, plan)
}

// A started instance that does not answer is removed, so the next attempt makes one instead of starting it.
func TestAStartIsRetriedByACreation(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		l.running.Wait()
		l.restart()
		var actions []reconfigure.Action
		shards := l.deps.Provisioner
		l.deps.Provisioner = func(shard string) operation.Provisioner { return planned{shards(shard), "p3", &actions} }
		l.resumed("p3")
		l.change("p3").Retries = 1
		l.change("p3").Deadline = time.Now().Add(time.Hour)
		l.Order(simulate.NoSSH, "p3")
		l.Then(simulate.AfterWait, func() { l.Clear(simulate.NoSSH) })
		l.wantDone("p3")
		l.want("asked of Terraform", []reconfigure.Action{reconfigure.Start, reconfigure.Remove, reconfigure.Create},
			slices.Compact(actions))
	})
}
