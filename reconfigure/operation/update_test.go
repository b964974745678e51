package operation_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

func TestDrainDoesNotWaitForJobs(t *testing.T) {
	test(t, func(l *lab) {
		l.StartJob("p1")
		l.wants(reconfigure.Drain, "p1", "p2")
		l.wantVerdicts(map[string]string{"p1": "done", "p2": "done"})
		l.want("calls", []string{"drain p[1-2]: test"}, l.Calls())
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestUndrainOnlyWhatIsOurs(t *testing.T) {
	test(t, func(l *lab) {
		l.Drained("reconfigure: update", "p1")
		l.Drained("disk is full", "p2") // since the plan was made
		l.wants(reconfigure.Undrain, "p1", "p2")
		l.wantVerdicts(map[string]string{"p1": "done", "p2": "done"})
		l.want("calls", []string{"undrain p1"}, l.Calls())
	})
}

// drained sets a drain of ours on a node that will be replaced or rebooted.
func (l *lab) drained(a reconfigure.Action, node string) {
	l.Drained("reconfigure: update", node)
	l.wants(a, node)
	l.plan.Changes[len(l.plan.Changes)-1].Undrain = true
}

func TestNodeIsUndrainedWhenItsUpdateIsDone(t *testing.T) {
	for action, did := range map[reconfigure.Action]string{
		reconfigure.Replace: "apply replace p1", reconfigure.Reboot: "reboot p1",
	} {
		t.Run(string(action), func(t *testing.T) {
			test(t, func(l *lab) {
				l.drained(action, "p1")
				l.wantVerdicts(map[string]string{"p1": "done"})
				l.wantOrder(did, "configure p1", "undrain p1")
				l.want("state", "IDLE", l.Node("p1").State)
			})
		})
	}
}

// asksForAnotherImage edits a node's entry in the map of nodes, like a worker that dies before Terraform begins. It
// returns the old entry.
func (l *lab) asksForAnotherImage(node string) reconfigure.Spec {
	l.Helper()
	state, err := l.State(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	was := state.Desired[node]
	other, edited := was, maps.Clone(state.Desired)
	other.ImageID = "id-of-v2"
	edited[node] = other
	preview := reconfigure.Preview{Plan: reconfigure.Plan{Desired: edited}}
	if _, err := l.deps.Provisioner(was.Shard).Apply(l.Context(), preview, nil, nil); err != nil {
		l.Fatal(err)
	}
	l.want("the entry that was not carried out", other, l.Node(node).Spec)
	return was
}

// A worker was killed between the edit of the map and the start of Terraform, and the requested image is no longer
// declared. Without the correction, the next plan by hand would make the instance anew.
func TestARebootCorrectsAnEntryThatWasNeverCarriedOut(t *testing.T) {
	test(t, func(l *lab) {
		was := l.asksForAnotherImage("p1")
		instance := l.Node("p1").Instance.ID
		l.drained(reconfigure.Reboot, "p1")
		l.wantDone("p1")
		l.wantOrder("reboot p1")
		l.wantNever("apply")
		l.want("the entry", was, l.Node("p1").Spec)
		l.want("the instance", instance, l.Node("p1").Instance.ID)
		l.wantNote("the entry is corrected")
	})
}

// An administrator ends the drain for an update while Terraform still corrects the entry, and a job starts.
func TestAJobThatStartsBeforeARebootIsLeftAlone(t *testing.T) {
	test(t, func(l *lab) {
		l.asksForAnotherImage("p1")
		l.Takes(simulate.Applying, time.Minute)
		l.drained(reconfigure.Reboot, "p1")
		round := l.start()
		time.Sleep(30 * time.Second)
		l.Resumes("p1")
		l.StartJob("p1")
		l.want("verdict", "failed apply: left alone: a job runs on it", l.said(round.wait())["p1"])
		l.want("lost jobs", 0, len(l.Lost()))
		l.wantNever("reboot p1")
	})
}

// If slurmctld reads slurm.conf while a node reboots, it forgets nextstate.
func TestNodeThatSlurmForgetsToUndrainIsUndrained(t *testing.T) {
	for whose, rule := range map[string]struct{ drain, state string }{
		"Slurm's own":            {"", "IDLE"},
		"an administrator's new": {"disk is full", "IDLE+DRAIN"},
	} {
		t.Run(whose, func(t *testing.T) {
			test(t, func(l *lab) {
				l.ForgetfulReboots("p1")
				l.wants(reconfigure.Replace, "p1")
				l.plan.Changes[0].Undrain = true
				if rule.drain != "" {
					l.Then(simulate.AfterApply, func() { l.Drained(rule.drain, "p1") })
				}
				l.wantVerdicts(map[string]string{"p1": "done"})
				l.want("state", rule.state, l.Node("p1").State)
			})
		})
	}
}

// Slurm has a drained node as idle until it notices that slurmd does not answer. That must not count as the new boot.
func TestDrainedNodeThatNeverComesBackFails(t *testing.T) {
	test(t, func(l *lab) {
		l.drained(reconfigure.Reboot, "p1")
		l.Order(simulate.NeverRegisters, "p1")
		l.wantVerdicts(map[string]string{"p1": "failed verify: slurmd did not register in time: Slurm has it as IDLE+DRAIN"})
		if n := l.Node("p1"); n.State != "DOWN+DRAIN" ||
			n.Reason != "reconfigure: unregistered: slurmd did not register in time: Slurm has it as IDLE+DRAIN" {
			l.Errorf("p1 is %+v", n)
		}
	})
}

func TestUpdateThatIsRefusedUndrains(t *testing.T) {
	test(t, func(l *lab) {
		before := l.Node("p1")
		l.drained(reconfigure.Replace, "p1")
		l.Order(simulate.OtherImage, "p2")
		l.carry()
		l.want("calls", []string{"undrain p1"}, l.Calls())
		l.want("node", before, l.Node("p1"))
	})
}

func TestFailedRebootOfSlurmsIsReportedToSlurm(t *testing.T) {
	// If slurmd has come back by itself, a job may run there already, which goes on.
	for fault, rule := range map[simulate.Fault]struct{ reason, state string }{
		simulate.RebootFails:   {"boot-timeout: reboot fails", "DOWN+DRAIN+REBOOT_ISSUED"},
		simulate.NoSSH:         {"no-ssh: no SSH: it did not answer in time", "IDLE+DRAIN"},
		simulate.PlaybookFails: {"playbook: playbook fails", "IDLE+DRAIN"},
		simulate.NeverRegisters: {
			"unregistered: slurmd did not register in time: Slurm has it as IDLE+REBOOT_ISSUED", "DOWN+DRAIN+REBOOT_ISSUED",
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.Reboots("p1")
				l.wants(reconfigure.Reboot, "p1")
				l.Order(fault, "p1")
				l.carry()
				if n := l.Node("p1"); n.Reason != "reconfigure: "+rule.reason || n.State != rule.state || n.Instance.ID == "" {
					l.Errorf("p1 is %+v", n)
				}
			})
		})
	}
}

func TestRebootOfSlurmsThatCannotBePlannedIsReportedToSlurm(t *testing.T) {
	test(t, func(l *lab) {
		l.Reboots("p1")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p1", Request: 1, Reason: "no such image", Awaited: true}}
		l.carry()
		l.want("calls", []string{"drain p1: no such image", "down p1: no such image"}, l.Calls())
	})
}

func TestADrainOfSomebodyElseKeepsItsReason(t *testing.T) {
	const theirs = "memory errors"
	for _, node := range []string{"p1", "p3"} {
		for _, fault := range []simulate.Fault{
			simulate.NoSSH, simulate.PlaybookFails, simulate.NeverRegisters, simulate.RebootFails,
		} {
			t.Run(node+" "+string(fault), func(t *testing.T) {
				test(t, func(l *lab) {
					l.Have("p3")
					l.Drained(theirs, node)
					time.Sleep(time.Hour)
					before := l.Node(node).Instance
					updates := func() {
						time.Sleep(time.Minute)
						l.asks(reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of(node)})
						verdict := l.carry()[node]
						if n := l.Node(node); n.Reason != theirs || !strings.HasSuffix(n.State, "+DRAIN") || n.Instance != before {
							l.Errorf("after %q it is %+v", verdict, n)
						}
					}
					l.Order(fault, node)
					updates()
					l.Clear(fault)
					updates()
					updates()
					l.wantNever("down "+node, "drain "+node, "undrain "+node, "power_down "+node)
				})
			})
		}
	}
}

// Somebody drains the node while it is planned that we do.
func TestADrainThatCameBeforeOursStays(t *testing.T) {
	test(t, func(l *lab) {
		l.Drained("memory errors", "p1")
		l.wants(reconfigure.Drain, "p1", "p2")
		l.wantVerdicts(map[string]string{"p1": "done", "p2": "done"})
		l.want("calls", []string{"drain p2: test"}, l.Calls())
	})
}

// remarks is a Slurm that says more of a node that has registered.
type remarks struct {
	*simulate.World
	flags  reconfigure.NodeFlags
	reason string
	since  time.Time // that registered later
}

func (r remarks) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	states, err := r.World.States(ctx, nodes)
	for node, s := range states {
		if s.Ready() && s.Boot.After(r.since) {
			s.Flags, s.Reason = s.Flags|r.flags, r.reason
			states[node] = s
		}
	}
	return states, err
}

func TestANodeThatRegistersWithTooLittleFails(t *testing.T) {
	const low = "Low RealMemory (reported:1900 < 100.00% of configured:2000)"
	const verdict = "failed verify: slurmd registered with less than slurm.conf declares: Slurm has it as "
	for flags, state := range map[reconfigure.NodeFlags]string{
		reconfigure.NodeDrain | reconfigure.NodeInvalidReg: "+DRAIN+INVALID_REG (" + low + ")",
		reconfigure.NodeDrain:                              "+DRAIN (" + low + ")", // before Slurm 21.08
	} {
		t.Run(flags.String(), func(t *testing.T) {
			test(t, func(l *lab) {
				l.Drained("reconfigure: update", "p1")
				time.Sleep(time.Minute)
				slurm := remarks{l.World, flags, low, time.Now()}
				l.deps.Scheduler = func(reconfigure.Instance) operation.Scheduler { return slurm }
				l.wants(reconfigure.Create, "p3")
				l.wants(reconfigure.Replace, "p1")
				said := l.carry()
				l.want("p1", verdict+"IDLE"+state, said["p1"])
				l.want("p3", verdict+"IDLE+CLOUD"+state, said["p3"])
				if took := l.round.after["p3"]; took > 20*time.Second {
					l.Errorf("it took %s", took)
				}
				l.wantNever("down p1", "drain p1", "undrain p1")
				l.want("a cloud node", simulate.Node{State: back}, l.Node("p3"))
				known, err := l.World.Health(l.Context())
				if h := known["group"]; err != nil || h.Failures == 0 || h.Last.Class != reconfigure.ClassUnregistered {
					l.Errorf("the group: %+v, error %v", h, err)
				}
			})
		})
	}
}

// Slurm ends no drain by itself because the next slurmd has enough.
func TestADrainForTooLittleOfTheInstanceOfBeforeIsNoFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.Drained("Low RealMemory", "p1")
		l.wants(reconfigure.Replace, "p1")
		l.wantDone("p1")
		l.want("state", "IDLE+DRAIN", l.Node("p1").State)
	})
}

// Slurm keeps the reason of a failure when the node is powered down.
func TestTheReasonOfAFailureGoesWithTheNextSuccess(t *testing.T) {
	for reason, want := range map[string][]string{
		"reconfigure: capacity: No valid host": {"clear reason p3"}, "memory errors": nil, "": nil,
	} {
		test(t, func(l *lab) {
			slurm := remarks{World: l.World, reason: reason}
			l.deps.Scheduler = func(reconfigure.Instance) operation.Scheduler { return slurm }
			l.PowersUp("p3")
			l.wants(reconfigure.Create, "p3")
			l.wantDone("p3")
			var cleared []string
			for _, call := range l.Calls() {
				if strings.HasPrefix(call, "clear") {
					cleared = append(cleared, call)
				}
			}
			l.want("with "+reason, want, cleared)
		})
	}
}

// A worker that dies after the instance was made leaves the rest to the next one.
func TestAReimageIsNotDoneTwice(t *testing.T) {
	for _, call := range []simulate.Call{simulate.AfterApply, simulate.AfterWait} {
		t.Run("killed after "+string(call), func(t *testing.T) {
			test(t, func(l *lab) {
				l.cluster.Settings.Interrupt = false
				l.Drained("reconfigure: update", "p1")
				time.Sleep(time.Hour)
				request := reconfigure.Request{
					Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Options: reconfigure.Options{Reimage: true},
				}
				l.asks(request)
				l.Then(call, func() {
					if call != simulate.AfterApply {
						time.Sleep(30 * time.Second) // Terraform has ended
					}
					l.end(reconfigure.ErrLeaseLost)
				})
				since := time.Now()
				l.start().wait()
				l.operator().Wait()
				time.Sleep(time.Minute)
				made := l.Node("p1").Instance
				l.restart()
				l.asks(request)
				l.change("p1").Since = since
				if l.change("p1").Action != reconfigure.Replace {
					l.Fatalf("planned: %s", l.plan)
				}
				l.wantDone("p1")
				n := l.Node("p1")
				if n.Instance != made || n.Instance.Tainted || n.State != "IDLE" || n.Boots != 1 {
					l.Errorf("it was %+v and is %+v:\n%s", made, n, strings.Join(l.Calls(), "\n"))
				}
			})
		})
	}
}

// The cloud's list lacks an instance that exists, as Nova's does for a filter that its database does not understand.
func TestAnInstanceThatTheListLacksIsNotMadeAnew(t *testing.T) {
	test(t, func(l *lab) {
		before := l.Node("p1").Instance
		l.Order(simulate.NotListed, "p1")
		l.drained(reconfigure.Reboot, "p1")
		l.wantVerdicts(map[string]string{"p1": "done"})
		l.want("calls", 1, strings.Count(strings.Join(l.Calls(), "\n"), "reboot p1"))
		l.want("instance", before, l.Node("p1").Instance)
	})
}
