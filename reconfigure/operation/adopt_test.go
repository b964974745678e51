package operation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// dies starts the plan, kills the worker and Terraform when Terraform requests its first change, and makes the next
// worker.
func (l *lab) dies(how simulate.Half) {
	l.Helper()
	l.KillDuring(0, how)
	l.Then(simulate.AfterApply, func() { l.end(reconfigure.ErrLeaseLost) })
	l.start().wait()
	l.operator().Wait()
	l.restart()
}

// interrupted kills a controller, and Terraform with it, while nodes are made. Then another one carries out the same
// plan.
func (l *lab) interrupted(how simulate.Half, nodes ...string) map[string]string {
	l.Helper()
	l.wants(reconfigure.Create, nodes...)
	l.dies(how)
	l.plan = reconfigure.Plan{}
	l.wants(reconfigure.Create, nodes...)
	return l.carry()
}

// An unknown instance from before the request is older than the boot that Slurm waits for.
func TestUnknownInstanceIsRemovedBeforeItsNodeIsMade(t *testing.T) {
	for _, how := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		t.Run(string(how), func(t *testing.T) {
			test(t, func(l *lab) {
				l.want("verdicts", map[string]string{"p3": "done"}, l.interrupted(how, "p3"))
				l.want("orphans", 0, len(l.Orphans()))
				l.want("doubled", 0, len(l.Doubled()))
				l.wantNever("adopt p3 ")
			})
		})
	}
}

// One that was made for the same request is adopted.
func TestUnknownInstanceOfTheSameRequestIsAdopted(t *testing.T) {
	for _, how := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		t.Run(string(how), func(t *testing.T) {
			test(t, func(l *lab) {
				since := time.Now()
				l.PowersUp("p3")
				l.wants(reconfigure.Create, "p3")
				l.dies(how)
				time.Sleep(time.Minute)
				l.plan = reconfigure.Plan{}
				l.wants(reconfigure.Create, "p3")
				l.change("p3").Since = since
				id := l.IDs()["p3"]
				l.wantDone("p3")
				l.want("calls", []string{"apply create p3", "adopt p3", "configure p3 of ctl,p[1-3]"}, l.Calls())
				l.want("instance", id, l.Node("p3").Instance.ID)
			})
		})
	}
}

// A worker and Terraform are killed after the cloud has rebuilt an instance that was made for the same request.
// Terraform's state then has the old image, and the next worker corrects it.
func TestARebuildThatTerraformHasNotWrittenIsAdopted(t *testing.T) {
	test(t, func(l *lab) {
		since := time.Now()
		time.Sleep(time.Second)
		l.Have("p3")
		l.PowersUp("p3")
		c := declared()
		c.Groups[0].Image = "v2"
		l.Declare(c)
		replaces := func() {
			l.plan = reconfigure.Plan{}
			l.wants(reconfigure.Replace, "p3")
			l.change("p3").Since = since
		}
		replaces()
		l.dies(simulate.Unwritten)
		time.Sleep(time.Minute)
		replaces()
		l.wantDone("p3")
		l.want("calls", []string{"apply rebuild p3", "adopt p3", "configure p3 of ctl,p[1-3]"}, l.Calls())
		state, err := l.State(l.ctx)
		if err != nil {
			t.Fatal(err)
		}
		l.want("made, in Terraform's state", l.Spec("p3"), state.Instances["p3"].Made)
	})
}

// As above, but the declaration has the old image again when the next worker plans. Terraform's state has that image,
// and only the cloud has the real one.
func TestARebuildThatTerraformHasNotWrittenIsUndone(t *testing.T) {
	test(t, func(l *lab) {
		declare := func(image string) {
			l.cluster = declared()
			l.cluster.Groups[0].Image = image
			l.Declare(l.cluster)
		}
		declare("v2")
		l.SetsDown("it smells", "p1", "p2")
		update := reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("p1")}
		l.asks(update)
		l.dies(simulate.Unwritten)
		time.Sleep(time.Minute)
		declare("v1")
		update.Nodes = nodeset.Of("p1", "p2")
		l.asks(update)
		l.wantDone("p1", "p2")
		n := l.Node("p1")
		l.want("made", l.Spec("p1"), n.Made)
		l.want("state", "IDLE", n.State)
	})
}

// The answer to a creation is lost, and Terraform goes on.
func TestInstanceOfALostAnswerIsAdopted(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.LostCreate, "p3")
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantDone("p3", "p4")
		l.wantOrder("apply create p[3-4]", "adopt p[3-4]")
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// The Terraform of another worker, which had the lock of the state, makes an instance and is killed.
func TestInstanceThatAppearsDuringThePreviewIsAdopted(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.Then(simulate.AfterPreview, func() {
			time.Sleep(time.Minute)
			l.Have("p3")
			l.Forget("p3")
		})
		l.wantDone("p3")
		l.want("doubled", 0, len(l.Doubled()))
		l.want("orphans", 0, len(l.Orphans()))
		l.wantOrder("adopt p3", "configure p3")
	})
}

func TestUnknownInstanceIsRemovedWithItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Forget("p3")
		l.wants(reconfigure.Remove, "p3")
		l.wantDone("p3")
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// Terraform's state may have been lost. Then the instances that it does not know are a cluster in use.
func TestUnknownInstanceThatMayBeOfUseIsLeftAlone(t *testing.T) {
	for name, rule := range map[string]struct {
		prepare func(*lab)
		node    string
		why     string
	}{
		"a job runs on it": {
			func(l *lab) { l.Have("p3"); l.StartJob("p3"); l.Forget("p3") }, "p3", "it is in use by Slurm",
		},
		"a job may start on it": {func(l *lab) { l.Have("p3"); l.Forget("p3") }, "p3", "it is in use by Slurm"},
		"Slurm does not answer": {
			func(l *lab) { l.Have("p3"); l.Forget("p3"); l.Order(simulate.SlurmSilent) }, "p3", "as Slurm does not answer",
		},
		"it is the control node": {func(l *lab) { l.Forget("ctl") }, "ctl", "all of Slurm's state may be on it"},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				rule.prepare(l)
				l.wants(reconfigure.Create, rule.node, "p4")
				said := l.carry()[rule.node]
				if !strings.HasPrefix(said, "failed apply: left alone: there is instance ") || !strings.Contains(said, rule.why) {
					l.Errorf("%s: %s", rule.node, said)
				}
				l.want("orphans", []string{rule.node}, l.Orphans())
				l.want("doubled", 0, len(l.Doubled()))
				l.want("lost jobs", 0, len(l.Lost()))
			})
		})
	}
}

// If Terraform's state has a part of the node, an unknown instance is the one that was being made, whether Slurm
// answers or not: otherwise no cluster could be deployed.
func TestUnfinishedControlNodeIsReplaced(t *testing.T) {
	empty(t, func(l *lab) {
		l.want("verdicts", map[string]string{"ctl": "done"}, l.interrupted(simulate.Unwritten, "ctl"))
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// Terraform must not forget an instance that it has begun to make while the result is unknown.
func TestNothingBegunIsForgottenWhileTheCloudIsSilent(t *testing.T) {
	for half, known := range map[simulate.Half]string{simulate.Unwritten: "p3", simulate.Unknown: ""} {
		test(t, func(l *lab) {
			l.wants(reconfigure.Create, "p3")
			l.dies(half)
			l.Order(simulate.CloudSilent)
			l.want("orphans", []string{"p3"}, l.Orphans())
			l.want("what Terraform's state has of it", known, l.Node("p3").Instance.Node)
			l.plan = reconfigure.Plan{}
			l.wants(reconfigure.Remove, "p3")
			const why = "failed apply: it is unknown whether there is an instance of it already: cloud silent"
			l.wantVerdicts(map[string]string{"p3": why})
			l.Clear(simulate.CloudSilent)
			l.wantDone("p3")
			l.want("orphans", 0, len(l.Orphans()))
		})
	}
}

func TestNothingIsMadeWhileTheCloudIsSilent(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p4")
		l.PowersDown("p4")
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Remove, "p4")
		l.Order(simulate.CloudSilent)
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: it is unknown whether there is an instance of it already: cloud silent", "p4": "done",
		})
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

// A controller sets a node DOWN that cannot be planned, and dies. The next one hands it back.
func TestNodeThatAnotherControllerSetDownIsHandedBack(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 1, Reason: "no such image", Awaited: true}}
		if err := l.Down(l.ctx, nodeset.Of("p3"), "no such image"); err != nil {
			t.Fatal(err)
		}
		l.carry()
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

// An unknown instance that the cloud does not delete delays its own node, and no other.
func TestUnknownInstanceThatStaysDelaysNoOtherNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Forget("p3")
		l.PowersUp("p3", "p4")
		l.Takes(simulate.Removing, simulate.Forever, "p3")
		l.wants(reconfigure.Create, "p3")
		l.change("p3").Deadline = time.Now().Add(9 * time.Minute)
		first := l.start()
		time.Sleep(2 * time.Second)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p4")
		l.wantDone("p4")
		if up := l.round.up("p4"); up > 15*time.Second {
			l.Errorf("p4 is up after %s: %q", up, l.Calls())
		}
		if v := first.wait()["p3"]; v.Status != reconfigure.StatusFailed {
			l.Errorf("p3: %+v", v)
		}
		l.want("doubled", 0, len(l.Doubled()))
	})
}

// The map of nodes is written before Terraform starts. A change that Terraform did not make must not count as made.
func TestMapOfNodesDoesNotHideAnOldInstance(t *testing.T) {
	test(t, func(l *lab) {
		was := l.Spec("p1")
		l.drained(reconfigure.Replace, "p1")
		l.change("p1").Spec.ImageID = "id-of-v2"
		l.KillDuring(0, simulate.NotBegun)
		l.Then(simulate.AfterApply, func() { l.end(reconfigure.ErrLeaseLost) })
		l.start().wait()
		l.want("intended", "id-of-v2", l.Node("p1").Spec.ImageID)
		l.want("observed", was, l.observe().Desired["p1"])
	})
}

// Slurm has not missed an instance that somebody has deleted by hand. Nothing is lost by making another one.
func TestInstanceThatIsGoneIsMadeAnew(t *testing.T) {
	for name, rule := range map[string]struct {
		request reconfigure.Request
		gone    func(l *lab)
		did     []string
	}{
		"a resume, and Terraform's state does not have it either": {
			reconfigure.Request{Mode: reconfigure.Resume}, func(l *lab) { l.Forget("p3") },
			[]string{"apply create p3", "adopt p3", "configure p3"},
		},
		"a resume, and Terraform's state has it as half made": {
			reconfigure.Request{Mode: reconfigure.Resume}, func(l *lab) { l.Taint("p3") },
			[]string{"apply create p3", "adopt p3", "configure p3"},
		},
		"a resume of a node that Slurm powers up": {
			reconfigure.Request{Mode: reconfigure.Resume}, func(l *lab) { l.PowersUp("p3") },
			[]string{"apply create p3", "adopt p3", "configure p3"},
		},
		"an update": {
			reconfigure.Request{Mode: reconfigure.Update}, func(l *lab) { l.Drained("reconfigure: update", "p3") },
			[]string{"apply create p3", "adopt p3", "configure p3", "undrain p3"},
		},
		"an update with another image": {
			reconfigure.Request{Mode: reconfigure.Update, Options: reconfigure.Options{Reimage: true}},
			func(l *lab) { l.Drained("reconfigure: update", "p3") },
			[]string{"apply create p3", "adopt p3", "configure p3", "undrain p3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.Have("p3")
				time.Sleep(time.Hour)
				before := l.Node("p3")
				l.Vanish("p3")
				l.Takes(simulate.Registering, 30*time.Second)
				rule.gone(l)
				rule.request.Nodes = nodeset.Of("p3")
				l.asks(rule.request)
				l.wantDone("p3")
				l.wantOrder(rule.did...)
				if n := l.Node("p3"); n.Instance.ID == "" || n.Instance.ID == before.Instance.ID || n.Instance.Tainted ||
					n.Boots != 1 || strings.Contains(n.State, "DRAIN") || l.round.after["p3"] < 30*time.Second {
					l.Errorf("after %s p3 is %+v", l.round.after["p3"], n)
				}
			})
		})
	}
}

// A cloud that does not show all of its servers has not lost them.
func TestInstanceThatIsGoneAndHasAJobIsLeftAlone(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		l.Forget("p3")
		l.deps.Cloud = blindCloud{l.deps.Cloud}
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p3")})
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: left alone: a job runs on it, though the cloud has no instance of it",
		})
		l.want("lost jobs", 0, len(l.Lost()))
		l.want("calls", 0, len(l.Calls()))
	})
}

// blindCloud shows no servers.
type blindCloud struct{ operation.Cloud }

func (blindCloud) Servers(context.Context, nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	return nil, nil
}

// disks is a Waiter that records which instances it is told to have a new disk.
type disks struct {
	operation.Waiter
	anew map[string]bool
}

func (d disks) Wait(ctx context.Context, i reconfigure.Instance, newDisk bool) error {
	d.anew[i.Node] = newDisk
	return d.Waiter.Wait(ctx, i, newDisk)
}

// The worker that has ended may have learned the host key of the adopted instance, and the console may not show it
// again.
func TestTheHostKeyOfAnAdoptedInstanceIsNotForgotten(t *testing.T) {
	test(t, func(l *lab) {
		seen := disks{l.deps.Waiter, map[string]bool{}}
		l.deps.Waiter = seen
		since := time.Now()
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3")
		l.dies(simulate.Unwritten)
		time.Sleep(time.Minute)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p3", "p4")
		l.change("p3").Since = since
		l.wantDone("p3", "p4")
		l.want("nodes with a new disk", map[string]bool{"p3": false, "p4": true}, seen.anew)
	})
}
