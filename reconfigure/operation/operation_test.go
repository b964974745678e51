package operation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

func TestEverythingThatIsAskedForIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p5")
		l.PowersDown("p4")
		l.wants(reconfigure.Create, "p5")
		l.wants(reconfigure.Reboot, "p3")
		l.wants(reconfigure.Remove, "p4")
		l.wants(reconfigure.Configure, "p1")
		l.wantDone("p1", "p3", "p4", "p5")
		l.wantOrder("reboot p3", "apply create p5, delete p4", "configure p5 of ctl,p[1-3,5]")
		l.wantOrder("reboot p3", "configure p[1,3] of ctl,p[1-4] apart from p4")
		for _, node := range []string{"p3", "p5"} {
			if n := l.Node(node); n.State != "ALLOCATED+CLOUD" {
				l.Errorf("the job of %s does not run: %+v", node, n)
			}
		}
		l.want("what is removed", simulate.Node{State: "IDLE+CLOUD+POWERING_DOWN"}, l.Node("p4"))
	})
}

func TestRequestsArePlannedAndCarriedOut(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p4")
		l.PowersUp("p3")
		l.PowersDown("p4")
		l.asks(
			reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p3")},
			reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodeset.Of("p4")},
			reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Options: reconfigure.Options{Reimage: true}},
		)
		l.wantDone("p1", "p3", "p4")
		l.wantOrder("drain p1")
		l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestOneBadNodeDelaysNoOther(t *testing.T) {
	const boot = 2 * time.Minute
	for fault, rule := range map[simulate.Fault]struct {
		verdict string
		class   reconfigure.Class
		within  time.Duration
	}{
		simulate.NoValidHost: {
			"failed apply: No valid host was found: its instance is in ERROR", reconfigure.ClassCapacity, 10 * time.Second,
		},
		simulate.NoQuota: {"failed apply: quota exceeded", reconfigure.ClassQuota, 15 * time.Second},
		simulate.NoSSH: {
			"failed boot: no SSH: it did not answer in time", reconfigure.ClassSSH, boot + 15*time.Second,
		},
		simulate.PlaybookFails: {"failed configure: playbook fails", reconfigure.ClassPlaybook, 15 * time.Second},
		simulate.NeverRegisters: {
			"failed verify: slurmd did not register in time: Slurm has it as " + waiting, reconfigure.ClassUnregistered,
			boot + 15*time.Second,
		},
		simulate.NotActive: {
			"failed verify: the cloud does not have its instance as running", reconfigure.ClassOther, boot + 15*time.Second,
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.PowersUp("p3", "p4", "p5")
				l.Order(fault, "p4")
				l.wants(reconfigure.Create, "p3", "p4", "p5")
				l.wantVerdicts(map[string]string{"p3": "done", "p4": rule.verdict, "p5": "done"})
				l.want("classes", map[string]reconfigure.Class{"p4": rule.class}, l.classes)
				for _, node := range []string{"p3", "p5"} {
					if took := l.Registered(node).Sub(l.round.began); took > 5*time.Second {
						l.Errorf("%s is up after %s", node, took)
					}
					if took := l.round.after[node]; took > 15*time.Second {
						l.Errorf("%s is done after %s", node, took)
					}
				}
				if took := l.round.after["p4"]; took > rule.within {
					l.Errorf("p4 took %s", took)
				}
				if fault == simulate.NotActive { // its job runs, and must not be ended
					l.want("lost jobs", 0, len(l.Lost()))
					return
				}
				_, reason, _ := strings.Cut(rule.verdict, ": ")
				reason = rule.class.Said(reason)
				l.wantOrder("apply create p[3-5]", "down p4: "+reason, "apply delete p4", "power_down p4")
				l.want("the bad node", simulate.Node{State: back}, l.Node("p4"))
				l.want("a good node", "ALLOCATED+CLOUD", l.Node("p3").State)
				l.wantFailedEvent("p4", reason)
			})
		})
	}
}

func TestRebootThatFailsFailsOnlyItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p4")
		l.Order(simulate.RebootFails, "p4")
		l.wants(reconfigure.Reboot, "p3", "p4")
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "failed apply: reboot fails"})
		l.wantOrder("reboot p3", "configure p3")
		l.wantOrder("down p4: boot-timeout: reboot fails", "apply delete p4", "power_down p4")
		l.want("the bad node", simulate.Node{State: back}, l.Node("p4"))
	})
}

// Terraform makes no instance before it has made all ports.
func TestNodesThatTerraformDidNotTryAreRetried(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p6")
		l.PowersUp("p3", "p4", "p5")
		l.PowersDown("p6")
		l.Order(simulate.NoPort, "p4")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		l.wants(reconfigure.Remove, "p6")
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "failed apply: no more ports", "p5": "done", "p6": "done"})
		l.wantOrder("apply create p[3-5], delete p6", "apply create p[3,5]", "configure p[3,5]")
		l.wantOrder("down p4: no more ports", "power_down p4")
		l.want("its node", back, l.Node("p4").State)
	})
}

func TestNodeThatCannotBePlannedDelaysNoOther(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.Drained("reconfigure: update", "p1", "p3", "p4")
		l.Order(simulate.Unreadable, "p3")
		l.wants(reconfigure.Replace, "p1", "p3")
		l.wants(reconfigure.Create, "p5")
		before := l.Node("p3")
		l.wantVerdicts(map[string]string{"p1": "done", "p3": "failed apply: cannot be read", "p5": "done"})
		l.wantOrder("apply create p5, replace p1")
		after := l.Node("p3")
		after.State, after.Reason = before.State, before.Reason
		l.want("the node", before, after)
	})
}

// When each node without a port has left the run, there is nothing to retry.
func TestNodesWithoutPortsFailWithoutARetry(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.NoPort, "p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantVerdicts(map[string]string{"p3": "failed apply: no more ports", "p4": "failed apply: no more ports"})
	})
}

func TestFailedPersistentNodeKeepsItsInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.Vanish("p1")
		l.Vanish("p2")
		l.PowersUp("p1", "p2")
		l.Order(simulate.PlaybookFails, "p1")
		l.Order(simulate.NoValidHost, "p2")
		l.wants(reconfigure.Create, "p1", "p2")
		l.wantVerdicts(map[string]string{
			"p1": "failed configure: playbook fails", "p2": "failed apply: No valid host was found: its instance is in ERROR",
		})
		if n := l.Node("p1"); n.Instance.ID == "" || n.Instance.Tainted || n.State != "DOWN" ||
			n.Reason != "reconfigure: playbook: playbook fails" {
			l.Errorf("p1 is %+v", n)
		}
		if n := l.Node("p2"); n.Instance.ID != "" || n.State != "DOWN" {
			l.Errorf("p2, which was tainted, is %+v", n)
		}
	})
}

func TestRefusalChangesNothingAndHasAVerdict(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersUp("p4", "p5")
		l.Order(simulate.OtherImage, "p1")
		l.wants(reconfigure.Remove, "p3")
		l.wants(reconfigure.Create, "p4")
		l.PowersDown("p3")
		before := map[string]simulate.Node{"p1": l.Node("p1"), "p3": l.Node("p3")}
		verdicts := l.carry()
		l.want("verdicts", 2, len(verdicts))
		for node, said := range verdicts {
			if !strings.HasPrefix(said, "refused apply: refused: Terraform's plan has 1 change(s)") ||
				!strings.Contains(said, "node p1: would rebuild") {
				l.Errorf("%s: %s", node, said)
			}
		}
		l.want("other nodes", before, map[string]simulate.Node{"p1": l.Node("p1"), "p3": l.Node("p3")})
		l.want("the node that Slurm waited for", simulate.Node{State: back}, l.Node("p4"))
		l.want("a node that nobody spoke of", waiting, l.Node("p5").State)
		l.wantOrder("down p4: refused", "power_down p4")
		l.want("calls", 2, len(l.Calls()))
	})
}

func TestLockedStateChangesNothing(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p4", "p5")
		l.Drained("reconfigure: update", "p4")
		l.PowersUp("p3")
		l.Order(simulate.StateLocked)
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Replace, "p4")
		before := l.Node("p4")
		l.wantVerdicts(map[string]string{"p3": "failed apply: state locked", "p4": "failed apply: state locked"})
		l.want("node", before, l.Node("p4"))
		l.want("the node that Slurm waited for", simulate.Node{State: back}, l.Node("p3"))
		l.want("calls", []string{"down p3: state-locked: state locked", "power_down p3"}, l.Calls())
	})
}

// The lock is waited for, and who has it is recorded at once. When it is released, what the other process has made is
// seen.
func TestALockedStateIsWaitedForAndSaidAtOnce(t *testing.T) {
	for name, released := range map[string]bool{"it is released": true, "it stays locked": false} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.cluster.Settings.LockTimeout = 8 * time.Minute // longer than Timing.Preview
				l.Order(simulate.StateLocked)
				if released {
					time.AfterFunc(6*time.Minute, func() { l.Clear(simulate.StateLocked) })
				}
				l.wants(reconfigure.Create, "p3")
				r := l.start()
				time.Sleep(time.Minute)
				l.wantNote("Terraform waits for at most 8m0s: state locked")
				v := r.wait()["p3"]
				if released {
					l.want("status", reconfigure.StatusDone, v.Status)
					return
				}
				l.want("class", reconfigure.ClassLocked, v.Class)
				l.want("reason", "state locked", v.Reason)
				if d := r.after["p3"]; d < 8*time.Minute || d > 9*time.Minute {
					t.Errorf("it failed after %s", d)
				}
			})
		})
	}
}

// A removal is retried as long as its deadline allows.
func TestRemovalIsRetried(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Order(simulate.StateLocked)
		l.Then(simulate.AfterPreview, func() {})
		l.Then(simulate.AfterPreview, func() { l.Clear(simulate.StateLocked) })
		l.wants(reconfigure.Remove, "p3")
		l.wantDone("p3")
		l.wantNote("could not be removed, tried again in 2s: state-locked: state locked")
	})
}

func TestInstanceThatCannotBeRemovedFailsItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Order(simulate.NeverRemoved, "p3")
		l.wants(reconfigure.Remove, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed apply: never removed"})
		if n := l.Node("p3"); n.Instance.ID == "" {
			l.Errorf("p3 is %+v", n)
		}
	})
}

func TestNodeThatFailsHasAVerdictAlthoughNoJobWaitsForIt(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.PlaybookFails, "p3")
		l.wants(reconfigure.Create, "p3")
		l.carry()
		l.wantOrder("down p3: playbook: playbook fails", "apply delete p3", "power_down p3")
	})
}

// A node that is refused before anything was made goes back to Slurm at once, however long the others take.
func TestNodeThatIsRefusedGoesBackAtOnce(t *testing.T) {
	test(t, func(l *lab) {
		l.Limit(reconfigure.Use{Instances: 4, Cores: -1, RAM: -1})
		l.PowersUp("p3", "p4")
		l.Takes(simulate.Booting, time.Minute)
		l.wants(reconfigure.Create, "p3", "p4")
		l.carry()
		l.want("a node that was refused", simulate.Node{State: back}, l.Node("p4"))
		if took := l.round.after["p4"]; took > 2*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

func TestNodesThatCannotBePlannedAreHandedBack(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p5")
		l.StartJob("p5")
		l.PowersUp("p3")
		for node, reason := range map[string]string{"p3": "no such image", "p4": "no such image", "p5": "a job runs on it"} {
			l.plan.Rejected = append(l.plan.Rejected, reconfigure.Rejection{
				Node: node, Request: 1, Reason: reason, Awaited: true,
			})
		}
		l.wantVerdicts(map[string]string{
			"p3": "rejected plan: no such image", "p4": "rejected plan: no such image", "p5": "rejected plan: a job runs on it",
		})
		l.want("calls", []string{"down p3: no such image", "power_down p3"}, l.Calls())
		failed := map[string]string{}
		for _, e := range l.Events() {
			if e.Level == reconfigure.Failed {
				failed[e.Node] = string(e.Phase) + ": " + e.Message
			}
		}
		l.want("in the journal", map[string]string{"p3": "plan: no such image"}, failed)
	})
}

func TestRejectedRequestDoesNotHandBackANodeWithAChange(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 2, Reason: "another request", Awaited: true}}
		l.wantDone("p3")
		l.want("calls", []string{"apply create p3", "adopt p3", "configure p3 of ctl,p[1-3]"}, l.Calls())
	})
}

func TestEveryPhaseIsRecordedWhenItBeginsAndWhenItIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Create, "p3")
		l.carry()
		var got []string
		for _, e := range l.Events() {
			if e.Level != reconfigure.Note {
				got = append(got, fmt.Sprint(e.Plan, e.Node, e.Phase, e.Level))
			}
		}
		var want []string
		for _, phase := range []reconfigure.Phase{
			reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify,
		} {
			want = append(want, fmt.Sprint(7, "p3", phase, reconfigure.Begun), fmt.Sprint(7, "p3", phase, reconfigure.Done))
		}
		l.want("events", want, got)
	})
}

func TestNodeWithAJobIsNotRemoved(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4")
		// Nothing can be verified, although all is well.
		l.Takes(simulate.Registering, time.Second)
		l.Then(simulate.AfterConfigure, func() { l.Order(simulate.CloudSilent) })
		l.Order(simulate.NeverRegisters, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		verdicts := l.start()
		time.Sleep(3 * time.Minute)
		l.Clear(simulate.CloudSilent)
		said := l.said(verdicts.wait())
		l.want("p3", "failed verify: cloud silent", said["p3"])
		l.want("lost jobs", 0, len(l.Lost()))
		l.want("node with a job", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("node without", simulate.Node{State: back}, l.Node("p4"))
	})
}

func TestNodeIsHandedBackAfterALostAnswerOfSlurm(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4")
		l.Order(simulate.NoValidHost, "p3", "p4")
		l.Order(simulate.SlurmRefuses, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.carry()
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

// failsAndThen lets the boot of p3 fail, and calls do while its instance is removed.
func (l *lab) failsAndThen(do func()) {
	l.PowersUp("p3")
	l.Order(simulate.NoSSH, "p3")
	l.wants(reconfigure.Create, "p3")
	l.Takes(simulate.Removing, time.Minute)
	go func() {
		for range 3600 {
			time.Sleep(time.Second)
			if slices.Contains(l.Calls(), "apply delete p3") {
				do()
				return
			}
		}
	}()
	l.carry()
}

func TestAJobIsRequeuedBeforeItsNodeIsPoweredDown(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.SlurmRefuses, "p3")
		l.failsAndThen(func() { l.Clear(simulate.SlurmRefuses) })
		l.want("nodes powered down while a job waited", 0, l.Thwarted())
		l.wantOrder("apply delete p3", "down p3", "power_down p3")
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

func TestANodeThatSlurmHasResumedAgainIsNotPoweredDown(t *testing.T) {
	test(t, func(l *lab) {
		l.failsAndThen(func() {
			l.PowersDown("p3")
			l.PoweredDown("p3")
			l.PowersUp("p3")
		})
		l.want("nodes powered down while a job waited", 0, l.Thwarted())
		l.wantNever("power_down")
		l.want("node", "ALLOCATED+CLOUD+POWERING_UP", l.Node("p3").State)
	})
}

func TestVerifyWaitsUntilSlurmdRegisters(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Takes(simulate.Registering, 90*time.Second)
		l.wants(reconfigure.Create, "p3")
		l.wantDone("p3")
		if took := l.round.after["p3"]; took < 90*time.Second || took > 95*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

func TestVerifyDoesNotWaitForever(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Takes(simulate.Registering, 11*time.Minute)
		l.wants(reconfigure.Create, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed verify: slurmd did not register in time: Slurm has it as " + waiting})
		if took := l.round.after["p3"]; took > 140*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

// asked notes of which nodes the cloud and Slurm were asked.
type asked struct {
	operation.Cloud
	operation.Scheduler
	all   *[]nodeset.NodeSet
	guard *sync.Mutex
}

func (a asked) note(nodes nodeset.NodeSet) {
	a.guard.Lock()
	defer a.guard.Unlock()
	*a.all = append(*a.all, nodes)
}

func (a asked) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	a.note(nodes)
	return a.Cloud.Servers(ctx, nodes)
}

func (a asked) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	a.note(nodes)
	return a.Scheduler.States(ctx, nodes)
}

// A list of all takes long where there are thousands.
func TestOnlyTheNodesThatMatterAreAskedFor(t *testing.T) {
	test(t, func(l *lab) {
		a := asked{Cloud: l.deps.Cloud, all: new([]nodeset.NodeSet), guard: new(sync.Mutex)}
		scheduler := l.deps.Scheduler
		l.deps.Cloud = a
		l.deps.Scheduler = func(i reconfigure.Instance) operation.Scheduler {
			a := a
			a.Scheduler = scheduler(i)
			return a
		}
		l.PowersUp("p3", "p4")
		l.Order(simulate.NeverRegisters, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.carry()
		for _, nodes := range *a.all {
			if nodes.Empty() || !nodes.Difference(nodeset.Of("p3", "p4")).Empty() {
				t.Errorf("asked for %q of p3 and p4", nodes)
			}
		}
		if len(*a.all) == 0 {
			t.Error("nobody was asked")
		}
	})
}

// slowCloud takes so long to answer that the time runs out in the middle of a look.
type slowCloud struct{ operation.Cloud }

func (c slowCloud) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(7 * time.Second):
		return c.Cloud.Servers(ctx, nodes)
	}
}

// A cloud of thousands of instances works for seconds on a list.
func TestLongListsLeaveTheCloudTimeForOthers(t *testing.T) {
	test(t, func(l *lab) {
		const list = 3 * time.Second
		began, lists := time.Now(), 0
		l.deps.Cloud = listingCloud{l.deps.Cloud, func() { lists++; time.Sleep(list) }}
		l.PowersUp("p3")
		l.Takes(simulate.Building, time.Minute, "p3")
		l.wants(reconfigure.Create, "p3")
		l.carry()
		if busy, passed := time.Duration(lists)*list, time.Since(began); lists < 5 || busy > passed/2 {
			l.Errorf("%d lists took %s of %s", lists, busy, passed)
		}
	})
}

// listingCloud calls before at the beginning of each list.
type listingCloud struct {
	operation.Cloud
	before func()
}

func (c listingCloud) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	c.before()
	return c.Cloud.Servers(ctx, nodes)
}

func TestGoodNodesAreDoneAlthoughTheTimeEndsInTheMiddleOfALook(t *testing.T) {
	test(t, func(l *lab) {
		l.deps.Cloud = slowCloud{l.deps.Cloud}
		l.PowersUp("p3", "p4")
		l.Order(simulate.NeverRegisters, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		const unregistered = "slurmd did not register in time: Slurm has it as " + waiting
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "failed verify: " + unregistered})
		l.wantFailedEvent("p4", "unregistered: "+unregistered)
	})
}

func TestVerdictSaysWhyNothingCouldBeVerified(t *testing.T) {
	test(t, func(l *lab) {
		l.deps.Cloud = slowCloud{l.deps.Cloud}
		l.Order(simulate.CloudSilent)
		l.wants(reconfigure.Configure, "p1")
		l.wantVerdicts(map[string]string{"p1": "failed verify: cloud silent"})
	})
}

func TestBrokenPlaybookFailsAllNodesThatNeedIt(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Order(simulate.BrokenPlaybook)
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Configure, "p1")
		before := l.Node("p1")
		l.wantVerdicts(map[string]string{
			"p1": "failed configure: broken playbook", "p3": "failed configure: broken playbook",
		})
		l.want("new node", simulate.Node{State: back}, l.Node("p3"))
		l.want("node in use", before, l.Node("p1"))
	})
}

// Another controller may act on the same nodes then. So they get no failure, and are not removed, handed back or
// undrained.
func TestOperatorWithoutTheLeaseChangesNothing(t *testing.T) {
	for _, call := range []simulate.Call{
		simulate.AfterPreview, simulate.AfterRoom, simulate.AfterApply, simulate.AfterAdopt, simulate.AfterWait,
		simulate.AfterConfigure,
	} {
		t.Run("after "+string(call), func(t *testing.T) {
			test(t, func(l *lab) {
				l.Have("p6")
				l.PowersDown("p6")
				l.PowersUp("p3", "p4", "p5", "p8")
				if err := l.Drain(l.ctx, nodeset.Of("p1"), "update"); err != nil {
					l.Fatal(err)
				}
				l.Order(simulate.NoValidHost, "p4")
				l.Order(simulate.NoSSH, "p5")
				l.wants(reconfigure.Create, "p3", "p4", "p5")
				l.wants(reconfigure.Remove, "p6")
				l.wants(reconfigure.Configure, "p1")
				l.change("p6").HandOver, l.change("p1").Undrain = true, true
				l.plan.Rejected = []reconfigure.Rejection{{Node: "p8", Request: 1, Reason: "no such image", Awaited: true}}
				var calls []string
				var events int
				l.Then(call, func() {
					time.Sleep(time.Millisecond) // until everything of this moment has happened
					calls, events = l.Calls(), len(l.Events())
					l.end(reconfigure.ErrLeaseLost)
				})
				round := l.start()
				<-l.ctx.Done()
				synctest.Wait()
				verdicts := len(round.came)
				time.Sleep(time.Hour)
				l.want("verdicts since", verdicts, len(round.came))
				l.want("calls", calls, l.Calls())
				l.want("events", events, len(l.Events()))
				l.operator().Wait()
			})
		})
	}
}

func TestNodeThatSlurmGivesUpWhileItIsConfiguredIsNoFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.wants(reconfigure.Configure, "p3")
		l.Then(simulate.AfterConfigure, func() { l.PowersDown("p3") })
		l.wantDone("p3")
	})
}

// Its job was cancelled: nobody waits for the node, and the call of SuspendProgram waits for the operation.
func TestNodeThatSlurmPowersDownWhileItComesUpIsNotWaitedFor(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4", "p5")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		l.Order(simulate.NeverRegisters, "p4", "p5")
		l.Then(simulate.AfterConfigure, func() { l.PowersDown("p4") })
		l.PowersDown("p5") // it was so when the plan was made: nothing follows from that
		start := l.start()
		time.Sleep(20 * time.Second)
		if l.PowersDown("p3"); l.Registered("p3").IsZero() {
			l.Error("p3 has not registered")
		}
		said := l.said(start.wait())
		l.want("p3", "done", said["p3"])
		l.want("p4", "failed verify: given up: Slurm powers it down before it has registered", said["p4"])
		l.want("p5", "failed verify: slurmd did not register in time: Slurm has it as IDLE+CLOUD+POWERING_DOWN", said["p5"])
		if took := l.round.after["p4"]; took > 20*time.Second {
			l.Errorf("it took %s", took)
		}
		l.wantNever("down p4", "power_down p4", "down p3")
		l.want("p4 is left to SuspendProgram", simulate.Node{State: "IDLE+CLOUD+POWERING_DOWN"}, l.Node("p4"))
	})
}

// slurmd registers, and Slurm powers the node down, between two looks.
func TestNodeThatSlurmPowersDownAsSoonAsItHasRegisteredIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Create, "p3")
		l.deps.Scheduler = func(reconfigure.Instance) operation.Scheduler { return &hasty{World: l.World, node: "p3"} }
		l.wantDone("p3")
		if took := l.round.after["p3"]; took > 20*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

// hasty is a Slurm that powers a node down as soon as it has registered.
type hasty struct {
	*simulate.World
	node string
}

func (h *hasty) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	if !h.Registered(h.node).IsZero() {
		h.PowersDown(h.node)
		h.PoweredDown(h.node)
	}
	return h.World.States(ctx, nodes)
}

func TestFirstDeploymentHasNoSlurmToAsk(t *testing.T) {
	empty(t, func(l *lab) {
		l.Order(simulate.NoValidHost, "p2")
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		l.wantVerdicts(map[string]string{
			"ctl": "done", "p1": "done", "p2": "failed apply: No valid host was found: its instance is in ERROR",
		})
		l.wantOrder("apply create shared, create ctl,p[1-2]", "apply delete p2")
		l.wantOrder("apply create shared", "slurm.conf everywhere, configure ctl,p1 of ctl,p1")
		l.want("persistent node", "IDLE", l.Node("p1").State)
	})
}

func TestWholeClusterIsRemovedAlthoughSlurmIsRemovedFirst(t *testing.T) {
	test(t, func(l *lab) {
		l.asks(reconfigure.Request{Mode: reconfigure.Destroy})
		l.wantDone("ctl", "p1", "p2")
		l.want("calls", []string{"apply delete shared, delete ctl,p[1-2]"}, l.Calls())
	})
}

// TestWhatTakesAMomentIsSeenSoon varies when an instance is ACTIVE and when slurmd registers. Between two looks at most
// a quarter of a second passes, or of the time until then.
func TestWhatTakesAMomentIsSeenSoon(t *testing.T) {
	took := func(building, registering time.Duration) (all time.Duration) {
		test(t, func(l *lab) {
			l.PowersUp("p3")
			l.Takes(simulate.Building, building)
			l.Takes(simulate.Registering, registering)
			l.wants(reconfigure.Create, "p3")
			l.wantDone("p3")
			all = l.round.after["p3"]
		})
		return all
	}
	var building, registering []time.Duration // how long each took, without its own time
	for d := 50 * time.Millisecond; d < 1500*time.Millisecond; d += 150 * time.Millisecond {
		building = append(building, took(d, 0)-d)
		registering = append(registering, took(time.Second, d)-d)
	}
	const most = 400 * time.Millisecond
	for what, all := range map[string][]time.Duration{"an instance": building, "slurmd": registering} {
		if late := slices.Max(all) - slices.Min(all); late > most {
			t.Errorf("%s is seen up to %s late", what, late)
		}
	}
}

// clocked notes when Terraform's plans begin.
type clocked struct {
	operation.Provisioner
	began time.Time
	plans *[]time.Duration
}

func (c clocked) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	*c.plans = append(*c.plans, time.Since(c.began))
	return c.Provisioner.Preview(ctx, p)
}

// Terraform waits for the orders of other nodes only if there are other nodes.
func TestTerraformBeginsAtOnceForOneNode(t *testing.T) {
	begins := func(nodes ...string) (plans []time.Duration) {
		test(t, func(l *lab) {
			of, began := l.deps.Provisioner, time.Now()
			l.deps.Provisioner = func(shard string) operation.Provisioner { return clocked{of(shard), began, &plans} }
			l.wants(reconfigure.Create, nodes...)
			l.wantDone(nodes...)
		})
		return plans
	}
	one, two := begins("p3"), begins("p3", "p4")
	if len(one) != 1 || len(two) != 1 || one[0] > 20*time.Millisecond || two[0] < 50*time.Millisecond {
		t.Errorf("for one node after %s, for two after %s", one, two)
	}
}

// unflushed notes whether the beginning of an apply is not durable yet.
type unflushed struct {
	operation.Recorder
	is *atomic.Bool
}

func (u unflushed) Record(events ...reconfigure.Event) {
	for _, e := range events {
		if e.Phase == reconfigure.PhaseApply && e.Level == reconfigure.Begun {
			u.is.Store(true)
		}
	}
	u.Recorder.Record(events...)
}

func (u unflushed) Flush(ctx context.Context) error {
	u.is.Store(false)
	return u.Recorder.Flush(ctx)
}

// applying calls a function before each apply.
type applying struct {
	operation.Provisioner
	before func()
}

func (a applying) Apply(
	ctx context.Context, p reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{},
) (reconfigure.Failures, error) {
	a.before()
	return a.Provisioner.Apply(ctx, p, watch, interrupt)
}

// The next worker must know that an operation has begun Terraform.
func TestTheJournalHasTheBeginningBeforeTerraformRuns(t *testing.T) {
	test(t, func(l *lab) {
		var is atomic.Bool
		applies, of := 0, l.deps.Provisioner
		l.deps.Recorder = unflushed{l.deps.Recorder, &is}
		l.deps.Provisioner = func(shard string) operation.Provisioner {
			return applying{of(shard), func() {
				if applies++; is.Load() {
					t.Error("Terraform runs before the journal has the beginning of the operation")
				}
			}}
		}
		l.wants(reconfigure.Create, "p3")
		l.wantDone("p3")
		if applies != 1 {
			t.Errorf("%d applies", applies)
		}
	})
}
