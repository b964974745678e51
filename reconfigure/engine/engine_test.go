package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// declared is a cluster with one persistent node, p1, a second one, p2, and cloud nodes p3 to p8.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:    "test",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 2, Max: 8}},
		Slurm:   reconfigure.Timing{ResumeTimeout: 10 * time.Minute},
	}
}

// lab is a world with an engine at work in it.
type lab struct {
	*testing.T
	*enginetest.World
	engine  *engine.Engine
	plan    reconfigure.Plan
	classes map[string]reconfigure.Class // of the nodes that failed
}

// test runs in a bubble of its own time. The control node and both persistent nodes are there.
func test(t *testing.T, do func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		w.Have("ctl", "p1", "p2")
		do(&lab{T: t, World: w, engine: engine.New(declared(), w.Deps())})
	})
}

// wants adds changes to the plan that is to be carried out.
func (l *lab) wants(a reconfigure.Action, nodes ...string) {
	for _, node := range nodes {
		c := reconfigure.Change{Node: node, Action: a, Reason: "test", Requests: []reconfigure.RequestID{1}}
		if a != reconfigure.Remove {
			c.Spec = l.Spec(node)
		}
		l.plan.Changes = append(l.plan.Changes, c)
	}
}

// none is the sources that a plan which is made here needs.
func none(map[string]reconfigure.NodeState) []reconfigure.Source { return nil }

// carry observes, completes the plan and carries it out, and answers each verdict as "status phase: reason".
func (l *lab) carry() map[string]string {
	l.Helper()
	verdicts, err := l.try(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	said := map[string]string{}
	l.classes = map[string]reconfigure.Class{}
	for node, v := range verdicts {
		if v.Class != "" {
			l.classes[node] = v.Class
		}
		if change, ok := l.plan.Of(node); !ok || v.Node != node || v.Action != change.Action {
			l.Errorf("the verdict on %s is %+v", node, v)
		}
		said[node] = strings.TrimSuffix(fmt.Sprintf("%s %s: %s", v.Status, v.Phase, v.Reason), " : ")
	}
	return said
}

func (l *lab) try(ctx context.Context) (map[string]reconfigure.Verdict, error) {
	l.Helper()
	seen, err := l.engine.Observe(l.Context(), none)
	if err != nil {
		l.Fatal(err)
	}
	l.plan.Desired = desired(seen.Desired, l.plan.Changes)
	return l.engine.Carry(ctx, 7, seen, l.plan, func() {})
}

// desired is the map of nodes with the changes made.
func desired(before map[string]reconfigure.Spec, changes []reconfigure.Change) map[string]reconfigure.Spec {
	after := maps.Clone(before)
	for _, c := range changes {
		switch c.Action {
		case reconfigure.Create, reconfigure.Replace:
			after[c.Node] = c.Spec
		case reconfigure.Remove:
			delete(after, c.Node)
		}
	}
	return after
}

func (l *lab) want(what string, want, got any) {
	l.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantOrder checks that calls were made in this order, each of which begins so; others may stand between them.
func (l *lab) wantOrder(prefixes ...string) {
	l.Helper()
	rest := l.Calls()
	for _, prefix := range prefixes {
		i := slices.IndexFunc(rest, func(call string) bool { return strings.HasPrefix(call, prefix) })
		if i < 0 {
			l.Errorf("%q was not done, or not in this order, among\n%s", prefix, strings.Join(l.Calls(), "\n"))
			return
		}
		rest = rest[i+1:]
	}
}

const back = "IDLE+CLOUD+POWERED_DOWN"

func TestEverythingThatIsAskedForIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p5")
		l.PowersDown("p4")
		l.wants(reconfigure.Create, "p5")
		l.wants(reconfigure.Reboot, "p3")
		l.wants(reconfigure.Remove, "p4")
		l.wants(reconfigure.Configure, "p1")
		l.want("verdicts", map[string]string{"p1": "done", "p3": "done", "p4": "done", "p5": "done"}, l.carry())
		l.want("calls", []string{"apply create p5, delete p4", "reboot p3", "configure p[1,3,5] of ctl,p[1-3,5]"}, l.Calls())
		for _, node := range []string{"p3", "p5"} {
			if n := l.Node(node); n.State != "ALLOCATED+CLOUD" {
				l.Errorf("the job of %s does not run: %+v", node, n)
			}
		}
	})
}

func TestOneBadNodeHoldsNothingBack(t *testing.T) {
	for fault, rule := range map[enginetest.Fault]struct {
		verdict string
		class   reconfigure.Class
		early   bool // known before the good ones are configured
	}{
		enginetest.NoValidHost:    {"failed apply: No valid host was found: unexpected state ERROR", reconfigure.ClassCapacity, true},
		enginetest.NoQuota:        {"failed apply: quota exceeded", reconfigure.ClassQuota, true},
		enginetest.LostCreate:     {"failed apply: lost create", reconfigure.ClassUnknown, true},
		enginetest.NoSSH:          {"failed boot: no SSH", reconfigure.ClassSSH, true},
		enginetest.PlaybookFails:  {"failed configure: playbook fails", reconfigure.ClassPlaybook, false},
		enginetest.NeverRegisters: {"failed verify: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP", reconfigure.ClassUnregistered, false},
		enginetest.NotActive:      {"failed verify: the cloud does not have its instance as running", reconfigure.ClassOther, false},
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.PowersUp("p3", "p4", "p5")
				l.Order(fault, "p4")
				l.wants(reconfigure.Create, "p3", "p4", "p5")
				verdicts := l.carry()
				l.want("classes", map[string]reconfigure.Class{"p4": rule.class}, l.classes)
				if fault == enginetest.NotActive {
					// Slurm has it and its job runs: it is not ours to end.
					l.want("verdicts", map[string]string{"p3": "done", "p4": rule.verdict, "p5": "done"}, verdicts)
					l.want("lost jobs", 0, len(l.Lost()))
					return
				}
				l.want("verdicts", map[string]string{"p3": "done", "p4": rule.verdict, "p5": "done"}, verdicts)
				_, reason, _ := strings.Cut(rule.verdict, ": ")
				reason = rule.class.Said(reason)
				if rule.early {
					l.wantOrder("apply create p[3-5]", "down p4: "+reason, "configure p[3,5] of ctl,p[1-3,5]", "apply delete p4", "power_down p4")
				} else {
					l.wantOrder("apply create p[3-5]", "configure p[3-5]", "down p4: "+reason, "apply delete p4", "power_down p4")
				}
				l.want("the bad node", enginetest.Node{State: back}, l.Node("p4"))
				l.want("a good node", "ALLOCATED+CLOUD", l.Node("p3").State)
				l.wantFailedEvent("p4", reason)
			})
		})
	}
}

// wantFailedEvent checks that the end of a node's way was written down.
func (l *lab) wantFailedEvent(node, reason string) {
	l.Helper()
	for _, e := range l.Events() {
		if e.Node == node && e.Level == reconfigure.Failed && e.Message == reason && e.Batch == 7 {
			return
		}
	}
	l.Errorf("the journal does not say that %s failed", node)
}

func TestRebootThatFailsIsThatNodes(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p4")
		l.Order(enginetest.RebootFails, "p4")
		l.wants(reconfigure.Reboot, "p3", "p4")
		l.want("verdicts", map[string]string{"p3": "done", "p4": "failed apply: reboot fails"}, l.carry())
		l.wantOrder("reboot p3", "down p4: reboot fails", "configure p3", "apply delete p4", "power_down p4")
		l.want("the bad node", enginetest.Node{State: back}, l.Node("p4"))
	})
}

// Terraform makes no instance before it has made all ports.
func TestNodesWhoseTurnDidNotComeAreTriedAgain(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p6")
		l.PowersUp("p3", "p4", "p5")
		l.PowersDown("p6")
		l.Order(enginetest.NoPort, "p4")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		l.wants(reconfigure.Remove, "p6")
		l.want("verdicts", map[string]string{"p3": "done", "p4": "failed apply: no more ports", "p5": "done", "p6": "done"}, l.carry())
		l.wantOrder("apply create p[3-5], delete p6", "down p4: no more ports", "apply create p[3,5]", "configure p[3,5]", "power_down p4")
		l.want("orphans and leftovers", back, l.Node("p4").State)
	})
}

func TestNodeThatCannotBePlannedHoldsNothingBack(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.Drained("reconfigure: update", "p1", "p3", "p4")
		l.Order(enginetest.Unreadable, "p3")
		l.wants(reconfigure.Replace, "p1", "p3")
		l.wants(reconfigure.Create, "p5")
		before := l.Node("p3")
		l.want("verdicts", map[string]string{"p1": "done", "p3": "failed apply: cannot be read", "p5": "done"}, l.carry())
		l.wantOrder("apply create p5, replace p1", "configure p[1,5]")
		after := l.Node("p3")
		after.State, after.Reason = before.State, before.Reason
		l.want("the node", before, after)
	})
}

// When the last one that was to blame has left, there is nothing to try again.
func TestNodesWithoutPortsFailAndNobodyTriesAgain(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(enginetest.NoPort, "p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.want("verdicts", map[string]string{"p3": "failed apply: no more ports", "p4": "failed apply: no more ports"}, l.carry())
	})
}

func TestPersistentNodeKeepsItsInstanceToBeLookedAt(t *testing.T) {
	test(t, func(l *lab) {
		l.Vanish("p1")
		l.Vanish("p2")
		l.PowersUp("p1", "p2")
		l.Order(enginetest.PlaybookFails, "p1")
		l.Order(enginetest.NoValidHost, "p2")
		l.wants(reconfigure.Create, "p1", "p2")
		l.want("verdicts", map[string]string{"p1": "failed configure: playbook fails", "p2": "failed apply: No valid host was found: unexpected state ERROR"}, l.carry())
		if n := l.Node("p1"); n.Instance.ID == "" || n.State != "DOWN" || n.Reason != "reconfigure: playbook: playbook fails" {
			l.Errorf("p1 is %+v", n)
		}
		if n := l.Node("p2"); n.Instance.Tainted || n.State != "DOWN" {
			l.Errorf("p2, which was not made to the end, is %+v", n)
		}
	})
}

func TestRefusalChangesNothingAndIsTold(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersUp("p4", "p5")
		before := map[string]enginetest.Node{"p1": l.Node("p1"), "p3": l.Node("p3")}
		l.Order(enginetest.OtherImage, "p1")
		l.wants(reconfigure.Remove, "p3")
		l.wants(reconfigure.Create, "p4")
		l.PowersDown("p3")
		before["p3"] = l.Node("p3")
		verdicts := l.carry()
		for node, said := range verdicts {
			if !strings.HasPrefix(said, "refused apply: refused: Terraform's plan holds 1 change(s)") || !strings.Contains(said, "node p1: would rebuild") {
				l.Errorf("%s: %s", node, said)
			}
		}
		l.want("other nodes", before, map[string]enginetest.Node{"p1": l.Node("p1"), "p3": l.Node("p3")})
		l.want("the node that Slurm waited for", enginetest.Node{State: back}, l.Node("p4"))
		l.want("a node that nobody spoke of", "ALLOCATED+CLOUD+POWERING_UP", l.Node("p5").State)
		l.wantOrder("down p4: refused", "power_down p4")
		if len(l.Calls()) != 2 {
			l.Errorf("calls: %q", l.Calls())
		}
	})
}

// The lock is gone when it comes to cleaning, but there is nothing to clean.
func TestLockedStateChangesNothing(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersDown("p3")
		l.Order(enginetest.StateLocked)
		l.Then(enginetest.AfterPreview, func() { l.Clear(enginetest.StateLocked) })
		l.wants(reconfigure.Remove, "p3")
		l.wants(reconfigure.Replace, "p4")
		before := []enginetest.Node{l.Node("p3"), l.Node("p4")}
		l.want("verdicts", map[string]string{"p3": "failed apply: state locked", "p4": "failed apply: state locked"}, l.carry())
		l.want("nodes", before, []enginetest.Node{l.Node("p3"), l.Node("p4")})
	})
}

func TestNodeThatDoesNotComeIsToldAlthoughNobodyWaitsForIt(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(enginetest.PlaybookFails, "p3")
		l.wants(reconfigure.Create, "p3")
		l.carry()
		l.wantOrder("down p3: playbook: playbook fails", "apply delete p3", "power_down p3")
	})
}

func TestJobThatStartsAfterThePlanKeepsItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4", "p5")
		l.PowersDown("p4")
		l.PowersUp("p6")
		l.wants(reconfigure.Remove, "p3", "p4")
		l.wants(reconfigure.Replace, "p5")
		l.wants(reconfigure.Create, "p6")
		l.Then(enginetest.AfterPreview, func() { l.StartJob("p3"); l.StartJob("p5") })
		l.want("verdicts", map[string]string{
			"p3": "failed apply: left alone: a job runs on it", "p4": "done", "p5": "failed apply: left alone: a job runs on it", "p6": "done",
		}, l.carry())
		// The others go on knowing the nodes with jobs.
		l.want("calls", []string{"apply create p6, delete p4", "configure p6 of ctl,p[1-3,5-6]"}, l.Calls())
		l.want("lost jobs", 0, len(l.Lost()))
		if n := l.Node("p3"); n.Spec != l.Spec("p3") || n.State != "ALLOCATED+CLOUD" {
			l.Errorf("p3 is %+v", n)
		}
	})
}

func TestNodeThatSlurmTookBackAfterThePlanIsLeftAlone(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.wants(reconfigure.Remove, "p3")
		l.want("verdicts", map[string]string{"p3": "failed apply: left alone: Slurm has it in use, and may start a job on it at any moment"}, l.carry())
		l.want("calls", 0, len(l.Calls()))
	})
}

func TestJobThatStartsDuringTheApplyKeepsItsNodeFromAReboot(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p4")
		l.wants(reconfigure.Reboot, "p3", "p4")
		l.wants(reconfigure.Create, "p5")
		l.Then(enginetest.AfterApply, func() { l.StartJob("p3") })
		l.want("verdicts", map[string]string{"p3": "failed apply: left alone: a job runs on it", "p4": "done", "p5": "done"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

// The replaced node was registered by its image, and has a job, before the other one is rebooted.
func TestRebootOfOneNodeDoesNotEndTheWayOfAnother(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p4")
		l.Order(enginetest.StartsByItself, "p3")
		l.wants(reconfigure.Replace, "p3")
		l.wants(reconfigure.Reboot, "p4")
		l.want("verdicts", map[string]string{"p3": "done", "p4": "done"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestSilentSlurmKeepsInstances(t *testing.T) {
	for action, call := range map[reconfigure.Action]string{reconfigure.Remove: "", reconfigure.Replace: "", reconfigure.Reboot: ""} {
		t.Run(string(action)+call, func(t *testing.T) {
			test(t, func(l *lab) {
				l.Have("p3")
				l.wants(action, "p3")
				before := l.Node("p3")
				l.Order(enginetest.SlurmSilent)
				verdicts := l.carry()
				if !strings.HasPrefix(verdicts["p3"], "failed apply: left alone: Slurm does not answer") {
					l.Errorf("%q", verdicts)
				}
				l.want("node", before, l.Node("p3"))
				l.want("calls", 0, len(l.Calls()))
			})
		})
	}
}

func TestSilentSlurmKeepsNobodyFromANewOrAHalfMadeInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.HaveTainted("p3", "p4")
		l.wants(reconfigure.Remove, "p3")
		l.wants(reconfigure.Replace, "p4")
		l.wants(reconfigure.Create, "p5")
		l.Order(enginetest.SlurmSilent)
		l.Then(enginetest.AfterGreet, func() { l.Clear(enginetest.SlurmSilent) })
		l.want("verdicts", map[string]string{"p3": "done", "p4": "done", "p5": "done"}, l.carry())
	})
}

func TestInstanceThatWasTaintedByHandKeepsItsJob(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		l.Taint("p3")
		l.wants(reconfigure.Replace, "p3")
		l.want("verdicts", map[string]string{"p3": "failed apply: left alone: a job runs on it"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestForceRemovesWhateverRuns(t *testing.T) {
	for _, silent := range []bool{false, true} {
		test(t, func(l *lab) {
			l.Have("p3")
			l.StartJob("p3")
			l.wants(reconfigure.Remove, "p3")
			l.plan.Changes[0].Force = true
			if silent {
				l.Order(enginetest.SlurmSilent)
			}
			l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
			l.want("lost jobs", []string{"p3"}, l.Lost())
		})
	}
}

func TestNodesThatNothingCanBePlannedForAreTold(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p5")
		l.StartJob("p5")
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 1, Reason: "no such image", Awaited: true}, {Node: "p4", Request: 1, Reason: "no such image", Awaited: true}, {Node: "p5", Request: 1, Reason: "a job runs on it", Awaited: true}}
		l.want("verdicts", map[string]string{}, l.carry())
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

func TestOfTwoRequestsForANodeTheRejectedOneIsNotTold(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 2, Reason: "another request", Awaited: true}}
		l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
		l.want("calls", []string{"apply create p3", "configure p3 of ctl,p[1-3]"}, l.Calls())
	})
}

func TestWhatCannotBeWrittenDownIsNotBegun(t *testing.T) {
	for call, done := range map[enginetest.Call][]string{
		"":                        {"down p8: no such image", "power_down p8"},
		enginetest.AfterApply:     {"down p8: no such image", "apply create p3", "power_down p8"},
		enginetest.AfterConfigure: {"down p8: no such image", "apply create p3", "configure p3 of ctl,p[1-3]", "power_down p8"},
	} {
		t.Run("after "+string(call), func(t *testing.T) {
			test(t, func(l *lab) {
				l.PowersUp("p3", "p8")
				l.wants(reconfigure.Create, "p3")
				l.plan.Rejected = []reconfigure.Rejection{{Node: "p8", Request: 1, Reason: "no such image", Awaited: true}}
				if call == "" {
					l.Order(enginetest.JournalFull)
				}
				l.Then(call, func() { l.Order(enginetest.JournalFull) })
				if verdicts, err := l.try(l.Context()); err == nil {
					l.Errorf("verdicts %v", verdicts)
				}
				l.want("calls", done, l.Calls())
			})
		})
	}
}

func TestEveryStageIsWrittenDownBeforeItBeginsAndWhenItIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Create, "p3")
		l.carry()
		var got []string
		for _, e := range l.Events() {
			if e.Level != reconfigure.Note {
				got = append(got, fmt.Sprint(e.Batch, e.Node, e.Phase, e.Level))
			}
		}
		var want []string
		for _, phase := range []reconfigure.Phase{reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify} {
			want = append(want, fmt.Sprint(7, "p3", phase, reconfigure.Begun), fmt.Sprint(7, "p3", phase, reconfigure.Done))
		}
		l.want("events", want, got)
	})
}

// What no single node owns is an intent too.
func TestSharedResourcesAreNotBegunUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		l := &lab{T: t, World: w, engine: engine.New(declared(), w.Deps())}
		l.HaveTainted("p3") // the map is not empty, so they are to be there
		l.plan.Shared = true
		l.Order(enginetest.JournalFull)
		if _, err := l.try(t.Context()); err == nil || len(l.Calls()) > 0 {
			t.Errorf("error %v, calls %q", err, l.Calls())
		}
		l.Clear(enginetest.JournalFull)
		l.want("verdicts", map[string]string{}, l.carry())
		l.want("calls", []string{"apply create shared"}, l.Calls())
	})
}

func TestUnknownOutcomeOfApplyIsCleaned(t *testing.T) {
	for _, fault := range []enginetest.Fault{enginetest.LostAnswer, enginetest.Killed} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.PowersUp("p3", "p4")
				l.HaveTainted("p5")
				l.Order(fault)
				l.Then(enginetest.AfterApply, func() { l.Clear(fault) })
				l.wants(reconfigure.Create, "p3", "p4")
				l.wants(reconfigure.Replace, "p5")
				failed := "failed apply: " + string(fault)
				l.want("verdicts", map[string]string{"p3": failed, "p4": failed, "p5": failed}, l.carry())
				for _, node := range []string{"p3", "p4", "p5"} {
					l.want(node, enginetest.Node{State: back}, l.Node(node))
				}
				l.want("persistent node", l.Spec("p1"), l.Node("p1").Spec)
			})
		})
	}
}

func TestNodeWithAJobIsNotCleanedAway(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4")
		l.Then(enginetest.AfterApply, func() { l.Order(enginetest.CloudSilent) }) // so that nothing can be verified, although all is well
		l.Order(enginetest.NeverRegisters, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.want("verdicts", map[string]string{"p3": "failed verify: cloud silent", "p4": "failed verify: cloud silent"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
		l.want("node with a job", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("node without", enginetest.Node{State: back}, l.Node("p4"))
	})
}

// The apply's answer is lost, but the instance registers and gets a job while the rest is cleaned.
func TestNodeThatCameUpAfterAllIsNotPoweredDown(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Order(enginetest.LostAnswer)
		l.Order(enginetest.StartsByItself, "p3")
		l.RegisterAfter(time.Nanosecond)
		l.Then(enginetest.AfterPreview, func() {}) // the first preview is the plan's own
		l.Then(enginetest.AfterPreview, func() { time.Sleep(time.Second); l.StartJob("p3") })
		l.wants(reconfigure.Create, "p3")
		l.want("verdicts", map[string]string{"p3": "failed apply: lost answer"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
		l.want("node", "ALLOCATED+CLOUD", l.Node("p3").State)
	})
}

func TestNodeThatSlurmWasHardlyToldOfIsHandedBack(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4")
		l.Order(enginetest.NoValidHost, "p3", "p4")
		l.Order(enginetest.SlurmRefuses, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.carry()
		l.want("node", enginetest.Node{State: back}, l.Node("p3"))
	})
}

func TestVerifyWaitsUntilSlurmdRegisters(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.RegisterAfter(90 * time.Second)
		l.wants(reconfigure.Create, "p3")
		begun := time.Now()
		l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
		if took := time.Since(begun); took < 90*time.Second || took > 92*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

func TestVerifyDoesNotHoldUpTheNextBatchForLong(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.RegisterAfter(11 * time.Minute)
		l.wants(reconfigure.Create, "p3")
		begun := time.Now()
		l.want("verdicts", map[string]string{"p3": "failed verify: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP"}, l.carry())
		if took := time.Since(begun); took != 2*time.Minute {
			l.Errorf("it took %s", took)
		}
	})
}

// slowCloud takes so long to answer that the time runs out in the middle of a look.
type slowCloud struct{ engine.Cloud }

func (c slowCloud) Active(ctx context.Context) (map[string]bool, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(6 * time.Second):
		return c.Cloud.Active(ctx)
	}
}

func TestGoodNodesAreDoneAlthoughTheTimeEndsInTheMiddleOfALook(t *testing.T) {
	test(t, func(l *lab) {
		deps := l.Deps()
		deps.Cloud = slowCloud{deps.Cloud}
		l.engine = engine.New(declared(), deps)
		l.PowersUp("p3", "p4")
		l.Order(enginetest.NeverRegisters, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.want("verdicts", map[string]string{"p3": "done", "p4": "failed verify: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP"}, l.carry())
		l.wantFailedEvent("p4", "unregistered: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP")
	})
}

func TestWhyNobodyCouldLookIsTold(t *testing.T) {
	test(t, func(l *lab) {
		deps := l.Deps()
		deps.Cloud = slowCloud{deps.Cloud}
		l.engine = engine.New(declared(), deps)
		l.Order(enginetest.CloudSilent)
		l.wants(reconfigure.Configure, "p1")
		l.want("verdicts", map[string]string{"p1": "failed verify: cloud silent"}, l.carry())
	})
}

func TestBrokenPlaybookEndsTheWayOfAllThatNeedIt(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Order(enginetest.BrokenPlaybook)
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Configure, "p1")
		before := l.Node("p1")
		l.want("verdicts", map[string]string{"p1": "failed configure: broken playbook", "p3": "failed configure: broken playbook"}, l.carry())
		l.want("new node", enginetest.Node{State: back}, l.Node("p3"))
		l.want("node in use", before, l.Node("p1"))
	})
}

func TestWorkerThatIsToEndCleansUp(t *testing.T) {
	test(t, func(l *lab) {
		ctx, cancel := context.WithCancel(l.Context())
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.Then(enginetest.AfterGreet, cancel)
		verdicts, err := l.try(ctx)
		if err == nil || verdicts != nil {
			l.Errorf("the journal does not take anything any more, but: %v, %v", verdicts, err)
		}
		l.want("instance", false, l.Node("p3").Instance.ID == "")
	})
}

func TestWorkerThatIsToEndSaysWhatItGaveUp(t *testing.T) {
	test(t, func(l *lab) {
		ctx, cancel := context.WithCancel(l.Context())
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.Then(enginetest.AfterPreview, cancel)
		verdicts, err := l.try(ctx)
		if err != nil || verdicts["p3"].Status != reconfigure.StatusFailed {
			l.Errorf("verdicts %v, error %v", verdicts, err)
		}
		l.wantFailedEvent("p3", "context canceled")
		l.want("node", enginetest.Node{State: back}, l.Node("p3"))
	})
}

// Another worker may be at the same nodes by then: neither are they told to have failed, nor cleaned up, handed back or undrained.
func TestWhoLosesTheLeadLeavesTheWorldAsItIs(t *testing.T) {
	for _, call := range []enginetest.Call{enginetest.AfterPreview, enginetest.AfterRoom, enginetest.AfterApply, enginetest.AfterGreet, enginetest.AfterConfigure} {
		t.Run("after "+string(call), func(t *testing.T) {
			test(t, func(l *lab) {
				ctx, lose := context.WithCancelCause(l.Context())
				l.Have("p6")
				l.PowersDown("p6")
				l.PowersUp("p3", "p4", "p5", "p8")
				if err := l.Drain(ctx, nodeset.Of("p1"), "update"); err != nil {
					l.Fatal(err)
				}
				l.Order(enginetest.NoValidHost, "p4")
				l.Order(enginetest.NoSSH, "p5")
				l.wants(reconfigure.Create, "p3", "p4", "p5")
				l.wants(reconfigure.Remove, "p6")
				l.wants(reconfigure.Configure, "p1")
				l.plan.Changes[3].HandOver, l.plan.Changes[4].Undrain = true, true
				l.plan.Rejected = []reconfigure.Rejection{{Node: "p8", Request: 1, Reason: "no such image", Awaited: true}}
				var calls []string
				var events int
				l.Then(call, func() {
					calls, events = l.Calls(), len(l.Events())
					lose(reconfigure.ErrLeadLost)
				})
				if verdicts, err := l.try(ctx); !errors.Is(err, reconfigure.ErrLeadLost) || verdicts != nil {
					l.Errorf("verdicts %v, error %v", verdicts, err)
				}
				l.want("calls", calls, l.Calls())
				l.want("events", events, len(l.Events()))
			})
		})
	}
}

func TestWhoLosesTheLeadWhileHeCleansUpHandsNothingBack(t *testing.T) {
	test(t, func(l *lab) {
		ctx, lose := context.WithCancelCause(l.Context())
		l.PowersUp("p5")
		l.Order(enginetest.NoSSH, "p5")
		l.wants(reconfigure.Create, "p5")
		l.Then(enginetest.AfterApply, func() {})
		l.Then(enginetest.AfterApply, func() {
			lose(reconfigure.ErrLeadLost)
			synctest.Wait() // until all have heard of it
		})
		if verdicts, err := l.try(ctx); !errors.Is(err, reconfigure.ErrLeadLost) || verdicts != nil {
			l.Errorf("verdicts %v, error %v", verdicts, err)
		}
		calls := l.Calls()
		l.want("last call", "apply delete p5", calls[len(calls)-1])
	})
}

func TestNodeThatSlurmGivesUpWhileItIsConfiguredIsNoFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.wants(reconfigure.Configure, "p3")
		l.Then(enginetest.AfterConfigure, func() { l.PowersDown("p3") })
		l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
	})
}

func TestInstanceThatStaysAfterItsRemovalIsAFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.wants(reconfigure.Remove, "p3")
		l.Then(enginetest.AfterApply, func() { l.Have("p3") })
		l.want("verdicts", map[string]string{"p3": "failed verify: its instance is still in Terraform's state"}, l.carry())
	})
}

func TestFirstDeploymentHasNoSlurmToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		l := &lab{T: t, World: w, engine: engine.New(declared(), w.Deps())}
		l.Order(enginetest.NoValidHost, "p2")
		l.wants(reconfigure.Create, "ctl", "p1", "p2")
		l.plan.Shared = true
		l.want("verdicts", map[string]string{"ctl": "done", "p1": "done", "p2": "failed apply: No valid host was found: unexpected state ERROR"}, l.carry())
		l.want("calls", []string{"apply create shared, create ctl,p[1-2]", "configure ctl,p1 of ctl,p1", "apply delete p2"}, l.Calls())
		l.want("persistent node", "IDLE", l.Node("p1").State)
	})
}

func TestWholeClusterGoesAlthoughSlurmIsGoneWithIt(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Remove, "ctl", "p1", "p2")
		for i := range l.plan.Changes {
			l.plan.Changes[i].Force = true
		}
		l.plan.Shared = true
		l.want("verdicts", map[string]string{"ctl": "done", "p1": "done", "p2": "done"}, l.carry())
		l.want("calls", []string{"apply delete shared, delete ctl,p[1-2]"}, l.Calls())
	})
}

func TestObservationSaysWhetherSlurmAnswers(t *testing.T) {
	test(t, func(l *lab) {
		l.HaveTainted("p3")
		for _, silent := range []bool{false, true} {
			if silent {
				l.Order(enginetest.SlurmSilent)
			}
			seen, err := l.engine.Observe(l.Context(), func(map[string]reconfigure.NodeState) []reconfigure.Source {
				return []reconfigure.Source{declared().Control.Source}
			})
			if err != nil || seen.Slurm == silent || (len(seen.States) == 0) != silent {
				l.Errorf("silent: %t; observed %+v, error %v", silent, seen, err)
			}
			if !seen.Instances["p3"].Tainted || seen.Desired["p1"] != l.Spec("p1") || seen.Sources[declared().Control.Source].ImageID != l.Spec("ctl").ImageID {
				l.Errorf("observed %+v", seen)
			}
		}
	})
}
