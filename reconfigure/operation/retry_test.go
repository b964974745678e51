package operation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// resumes powers up nodes in Slurm, and adds their creation to the plan, with this deadline and number of retries.
func (l *lab) resumes(within time.Duration, retries int, nodes ...string) {
	l.PowersUp(nodes...)
	l.wants(reconfigure.Create, nodes...)
	for _, node := range nodes {
		c := l.change(node)
		c.Deadline, c.Retries = time.Now().Add(within), retries
	}
}

// wantAttempts checks how many instances were made of a node.
func (l *lab) wantAttempts(node string, want int) {
	l.Helper()
	got := 0
	for _, e := range l.Events() {
		if e.Node == node && e.Phase == reconfigure.PhaseBoot && e.Level == reconfigure.Begun {
			got++
		}
	}
	l.want("attempts of "+node, want, got)
}

func TestNodeIsRetriedOnAFreshInstance(t *testing.T) {
	for fault, class := range map[simulate.Fault]reconfigure.Class{
		simulate.Lemon: reconfigure.ClassSSH, simulate.PlaybookFails: reconfigure.ClassPlaybook,
		simulate.Unhealthy: reconfigure.ClassUnhealthy,
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.resumes(9*time.Minute, 1, "p3", "p4")
				l.Order(fault, "p3")
				l.Then(simulate.AfterConfigure, func() { l.Clear(simulate.PlaybookFails); l.Clear(simulate.Unhealthy) })
				l.wantDone("p3", "p4")
				l.wantAttempts("p3", 2)
				l.wantAttempts("p4", 1)
				l.wantNote("retried on a fresh instance: " + string(class))
				l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
				l.wantNever("down", "power_down", "comment")
				if took := l.round.up("p4"); took > 5*time.Second {
					l.Errorf("the other one is up after %s", took)
				}
			})
		})
	}
}

// TestAnotherFlavorIsTriedWhereThereIsNoRoom lets the cloud have no room for the first flavor of p3, and for none of p4.
func TestAnotherFlavorIsTriedWhereThereIsNoRoom(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 0, "p3", "p4", "p5")
		l.change("p3").Fallbacks = []reconfigure.Fallback{{FlavorID: "large", Zone: "b"}, {FlavorID: "huge"}}
		l.change("p4").Fallbacks = []reconfigure.Fallback{{FlavorID: "large"}}
		l.Order(simulate.NoValidHost, "p3", "p4")
		l.Then(simulate.AfterApply, func() { l.Clear(simulate.NoValidHost); l.Order(simulate.NoValidHost, "p4") })
		verdicts := l.carry()
		if verdicts["p3"] != "done" || verdicts["p5"] != "done" || !strings.Contains(verdicts["p4"], "No valid host") {
			l.Errorf("%v", verdicts)
		}
		p3, p5 := l.Node("p3"), l.Node("p5")
		want := l.Spec("p3")
		want.FlavorID, want.Zone = "large", "b"
		if p3.Spec != want || p3.State != "ALLOCATED+CLOUD" || p5.Spec != l.Spec("p5") {
			l.Errorf("p3 is %+v, p5 %+v", p3, p5)
		}
		l.wantNote("tried with flavor large in zone b: capacity: No valid host")
		l.want("p4", simulate.Node{State: back}, l.Node("p4"))
		// The two may be made together or one after the other.
		l.wantOrder("apply create p[3-5]", "apply delete p", "apply create p", "apply delete p4", "power_down p4")
		var flavors []string
		for _, life := range l.Lives() {
			if life.Node == "p3" {
				flavors = append(flavors, life.FlavorID)
			}
		}
		l.want("flavors of the instances of p3", []string{l.Spec("p3").FlavorID, "large"}, flavors)
	})
}

// TestNoOtherFlavorIsTried checks failures for which another flavor is of no use.
func TestNoOtherFlavorIsTried(t *testing.T) {
	for name, order := range map[string]func(*lab){
		"when it does not boot": func(l *lab) { l.Order(simulate.NoSSH, "p3") },
		"when Slurm has given it up": func(l *lab) {
			l.Order(simulate.NoValidHost, "p3")
			l.Then(simulate.AfterApply, func() { l.GivesUp("p3") })
		},
		"when there is none": func(l *lab) {
			l.Order(simulate.NoValidHost, "p3")
			l.change("p3").Fallbacks = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.resumes(9*time.Minute, 0, "p3")
				l.change("p3").Fallbacks = []reconfigure.Fallback{{FlavorID: "large"}}
				order(l)
				if verdict := l.carry()["p3"]; !strings.HasPrefix(verdict, "failed") {
					l.Errorf("p3: %s", verdict)
				}
				l.want("node", simulate.Node{State: back}, l.Node("p3"))
				if slices.ContainsFunc(l.Events(), func(e reconfigure.Event) bool {
					return strings.Contains(e.Message, "tried with flavor")
				}) {
					l.Error("it was tried with another flavor")
				}
			})
		})
	}
}

func TestNodeIsRetriedAsOftenAsItMayBe(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(time.Hour, 2, "p3")
		l.Order(simulate.NoSSH, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed boot: no SSH: it did not answer in time"})
		l.wantAttempts("p3", 3)
		l.wantOrder("down p3", "power_down p3")
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

func TestRebootOfALeftoverIsRetriedOnAFreshInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersUp("p3")
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p3")})
		l.change("p3").Retries = 1
		l.Order(simulate.RebootFails, "p3")
		before := l.Node("p3").Instance.ID
		l.wantDone("p3")
		l.wantOrder("apply delete p3", "apply create p3")
		if n := l.Node("p3"); n.Instance.ID == before || n.State != "ALLOCATED+CLOUD" || n.Spec != l.Spec("p3") {
			l.Errorf("p3 is %+v", n)
		}
	})
}

// TestThereIsNoRetry checks failures for which a retry is of no use, or would disturb somebody. Slurm gets the node
// back.
func TestThereIsNoRetry(t *testing.T) {
	for name, order := range map[string]func(*lab){
		"where it is not allowed":                 func(l *lab) { l.change("p3").Retries = 0 },
		"where there is not the time for another": func(l *lab) { l.change("p3").Deadline = time.Now().Add(4 * time.Minute) },
		"when Slurm has given it up":              func(l *lab) { l.Then(simulate.AfterWait, func() { l.GivesUp("p3") }) },
		"when somebody has suspended it":          func(l *lab) { l.Then(simulate.AfterWait, func() { l.PowersDown("p3") }) },
		"for want of room":                        func(l *lab) { l.Order(simulate.NoValidHost, "p3") },
		"when its slurmd was started": func(l *lab) {
			l.Clear(simulate.NoSSH)
			l.Order(simulate.NeverRegisters, "p3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.resumes(9*time.Minute, 1, "p3")
				l.Order(simulate.NoSSH, "p3")
				order(l)
				if verdict := l.carry()["p3"]; !strings.HasPrefix(verdict, "failed") {
					l.Errorf("p3: %s", verdict)
				}
				made := 0
				for _, call := range l.Calls() {
					if strings.HasPrefix(call, "apply create p3") {
						made++
					}
				}
				l.want("instances made", 1, made)
				end := back
				if strings.Contains(name, "suspended") { // SuspendTimeout is not over yet
					end = "IDLE+CLOUD+POWERING_DOWN"
				}
				l.want("node", simulate.Node{State: end}, l.Node("p3"))
			})
		})
	}
}

// Its job need not wait for the others.
func TestSlurmIsToldAtOnceOfANodeThatIsNotRetried(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3", "p4")
		l.change("p3").Deadline = time.Now().Add(3 * time.Minute)
		l.Takes(simulate.Playing, 5*time.Minute)
		l.Order(simulate.NoSSH, "p3")
		l.carry()
		if took := l.round.after["p3"]; took > 2*time.Minute+15*time.Second {
			l.Errorf("it took %s", took)
		}
	})
}

func TestInstanceThatCannotBeRemovedKeepsItsNodeFromARetry(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.NoSSH, "p3")
		l.Order(simulate.NeverRemoved, "p3")
		l.carry()
		l.wantAttempts("p3", 1)
		l.wantNote("it is not retried: its instance could not be removed")
		l.wantOrder("down p3: no-ssh: no SSH", "power_down p3")
	})
}

// told records when Slurm is told that a node is DOWN.
type told struct {
	operation.Scheduler
	when map[string]time.Duration
	from time.Time
}

func (s told) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	for node := range nodes.All() {
		s.when[node] = time.Since(s.from)
	}
	return s.Scheduler.Down(ctx, nodes, reason)
}

// hears makes the operator use it.
func (l *lab) hears() told {
	heard := told{Scheduler: l.World, when: map[string]time.Duration{}, from: time.Now()}
	l.deps.Scheduler = func(reconfigure.Instance) operation.Scheduler { return heard }
	return heard
}

// TestSlurmIsToldOfANodeBeforeItGivesItUp checks that for each cause of the delay, while other nodes have no deadline.
// A wait for other nodes is no failure of the group.
func TestSlurmIsToldOfANodeBeforeItGivesItUp(t *testing.T) {
	const (
		deadline = 90 * time.Second
		late     = "it was not ready before Slurm gives it up"
	)
	for name, c := range map[string]struct {
		order  func(*lab)
		reason string
	}{
		"while Terraform plans":      {func(l *lab) { l.Takes(simulate.Planning, 4*time.Minute) }, late},
		"while Terraform is at work": {func(l *lab) { l.Takes(simulate.Applying, 5*time.Minute) }, late},
		"while it is built": {
			func(l *lab) { l.Takes(simulate.Building, simulate.Forever, "p3") }, "boot-timeout: " + late,
		},
		"while it boots": {func(l *lab) { l.Order(simulate.NoSSH, "p3") }, "no-ssh: no SSH: " + late},
		"while it boots, after Terraform took most of the time": {func(l *lab) {
			l.Takes(simulate.Planning, time.Minute)
			l.Order(simulate.NoSSH, "p3")
		}, late},
		"while slurmd starts, after Terraform took most of the time": {func(l *lab) {
			l.Takes(simulate.Planning, time.Minute)
			l.Order(simulate.NeverRegisters, "p3")
		}, late},
		"while other playbooks run": {func(l *lab) {
			l.Takes(simulate.Booting, 10*time.Second, "p3")
			l.Takes(simulate.Playing, 5*time.Minute)
		}, late},
		"while its playbooks run": {func(l *lab) { l.Takes(simulate.Playing, 5*time.Minute) }, late},
		"while slurmd starts": {func(l *lab) {
			l.Takes(simulate.Playing, time.Minute)
			l.Order(simulate.NeverRegisters, "p3")
		}, "unregistered: slurmd did not register in time: Slurm has it as " + waiting},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				heard := l.hears()
				l.resumes(deadline, 0, "p3")
				l.resumes(time.Hour, 0, "p4")
				c.order(l)
				verdicts := l.carry()
				l.want("p4", "done", verdicts["p4"])
				if when, ok := heard.when["p3"]; !ok || when > deadline+time.Second || when < deadline-3*time.Second {
					l.Errorf("Slurm heard of p3 after %s: %s", when, verdicts["p3"])
				}
				l.wantFailedEvent("p3", c.reason)
				l.want("state", back, l.Node("p3").State)
				l.want("lost jobs", 0, len(l.Lost()))
				if c.reason == late {
					l.wantHealth(reconfigure.Health{})
				}
			})
		})
	}
}

// The image starts slurmd, which registers while Terraform removes the instance.
func TestANodeThatRegistersDuringItsRemovalIsHandedBack(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 0, "p3")
		l.Order(simulate.StartsByItself, "p3")
		l.Order(simulate.PlaybookFails, "p3")
		l.Takes(simulate.Planning, 30*time.Second)
		l.Takes(simulate.Registering, 10*time.Second)
		l.carry()
		l.want("state", back, l.Node("p3").State)
	})
}

// The search for unknown instances takes until the deadline. The leftovers of an earlier attempt are removed.
func TestNothingIsMadeTooLate(t *testing.T) {
	test(t, func(l *lab) {
		l.HaveTainted("p3")
		l.resumes(time.Minute, 0, "p3", "p4")
		l.change("p3").Action = reconfigure.Replace
		l.Then(simulate.AfterRoom, func() { time.Sleep(2 * time.Minute) })
		l.carry()
		l.wantNever("apply create", "apply replace")
		l.wantOrder("down p[3-4]: it was not ready before Slurm gives it up")
		for _, node := range []string{"p3", "p4"} {
			l.want(node, simulate.Node{State: back}, l.Node(node))
		}
	})
}

func TestPreviewIsNotAppliedTooLate(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(time.Minute, 0, "p3")
		l.wants(reconfigure.Create, "p5")
		l.Takes(simulate.Planning, 2*time.Minute)
		l.carry()
		l.wantOrder("down p3: it was not ready before Slurm gives it up", "power_down p3")
		l.wantOrder("apply create p5", "configure p5")
		l.wantNever("apply create p3", "apply create p[3,5]")
	})
}

// TestACloudThatDoesNotAnswerTerraform has a service of the cloud accept calls and never answer, so that Terraform's
// plan does not end by itself.
func TestACloudThatDoesNotAnswerTerraform(t *testing.T) {
	const silent = "the plan of Terraform did not end in time"
	test(t, func(l *lab) {
		l.Takes(simulate.Planning, 24*time.Hour)
		l.wants(reconfigure.Create, "p5") // by a person, without a deadline
		l.resumes(12*time.Minute, 0, "p3")
		said := l.carry()
		for node, words := range map[string]string{
			"p3": "it was not ready before Slurm gives it up: " + silent, "p5": silent,
		} {
			if !strings.Contains(said[node], words) {
				l.Errorf("%s: %s", node, said[node])
			}
		}
		l.want("classes", map[string]reconfigure.Class{"p3": reconfigure.ClassCloud, "p5": reconfigure.ClassCloud}, l.classes)
		l.want("state", back, l.Node("p3").State)
		l.wantHealth(reconfigure.Health{})
	})
	test(t, func(l *lab) {
		l.Takes(simulate.Planning, 24*time.Hour)
		l.resumes(12*time.Minute, 0, "p3")
		round := l.start()
		time.Sleep(time.Minute)
		l.Takes(simulate.Planning, time.Second) // the next plan
		round.wait()
		l.want("p3", reconfigure.StatusDone, round.verdicts["p3"].Status)
		l.wantNote(silent)
	})
}

// A run of the playbooks ends when no call waits for it.
func TestPlaybooksEndWithTheLastNodeThatTheyAreFor(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(time.Minute, 0, "p3")
		l.resumes(2*time.Minute, 0, "p4")
		l.Takes(simulate.Playing, 50*time.Minute)
		round := l.start()
		time.Sleep(3 * time.Minute)
		round.wait()
		l.plan = reconfigure.Plan{}
		l.Takes(simulate.Playing, 0)
		l.wants(reconfigure.Configure, "p1")
		l.wantDone("p1")
		if took := l.round.after["p1"]; took > 2*time.Second {
			l.Errorf("the next run took %s", took)
		}
	})
}

func TestEvidenceIsKeptOfFailedNodes(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 0, "p3", "p4", "p5", "p6")
		l.Order(simulate.NoSSH, "p3")
		l.Order(simulate.PlaybookFails, "p4")
		l.Order(simulate.NeverRegisters, "p5")
		l.Have("p7")
		l.PowersDown("p7")
		l.wants(reconfigure.Remove, "p7")
		l.Order(simulate.NeverRemoved, "p7")
		l.Then(simulate.AfterWait, func() {
			l.Print(l.IDs()["p4"], strings.Repeat("a line\n", 20_000)+"the last line\n")
		})
		l.carry()
		got := map[string]string{}
		for _, e := range l.Evidence() {
			if e.Plan != 7 || e.Time.IsZero() || len(e.Text) > reconfigure.EvidenceLimit {
				l.Errorf("evidence of plan %d at %s of %d bytes", e.Plan, e.Time, len(e.Text))
			}
			last := strings.Split(strings.TrimSpace(e.Text), "\n")
			text, _, _ := strings.Cut(last[len(last)-1], " at ")
			got[fmt.Sprint(e.Node, " ", e.Phase, " ", e.Kind)] = text
		}
		for key, text := range got {
			got[key] = strings.TrimRight(text, "0123456789") // the numbers of instances
		}
		of := func(node string) string { return " of " + node + ": booted" }
		for _, key := range []string{"p3 boot console", "p5 verify console"} {
			if !strings.HasSuffix(got[key], of(key[:2])) {
				l.Errorf("%s: %q", key, got[key])
			}
		}
		l.want("of the task", "stderr: playbook fails on instance-", got["p4 configure task"])
		l.want("the end of a long console", "the last line", got["p4 configure console"])
		l.want("pieces", 4, len(got))
	})
}

func TestEvidenceIsKeptOfEachAttempt(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.PlaybookFails, "p3")
		l.carry()
		l.want("pieces", 4, len(l.Evidence()))
	})
}

func TestMissingConsoleIsNoFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 0, "p3")
		l.Order(simulate.NoSSH, "p3")
		l.Then(simulate.AfterAdopt, func() { l.Order(simulate.CloudSilent) })
		l.wantVerdicts(map[string]string{"p3": "failed boot: no SSH: it did not answer in time"})
		l.wantNote("its console log cannot be had: cloud silent")
		l.want("evidence", 0, len(l.Evidence()))
	})
}

// TestAFaultOfTheControlHostCostsNoInstance has Ansible fail for all nodes of a resume, as with an error in
// group_vars/cluster.yml, until an administrator corrects that.
func TestAFaultOfTheControlHostCostsNoInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3", "p4", "p5")
		l.Order(simulate.BrokenPlaybook)
		time.AfterFunc(5*time.Minute, func() { l.Clear(simulate.BrokenPlaybook) })
		l.wantDone("p3", "p4", "p5")
		for _, node := range []string{"p3", "p4", "p5"} {
			l.wantAttempts(node, 1)
			l.want("its job", "ALLOCATED+CLOUD", l.Node(node).State)
			if took := l.round.after[node]; took > 5*time.Minute+40*time.Second {
				l.Errorf("%s came after %s", node, took)
			}
		}
		l.wantNever("apply delete", "down", "power_down", "comment")
		l.wantNote("the playbooks run again in 2s: ansible-failed: broken playbook")
		l.wantNote("the playbooks run again in 30s: ansible-failed: broken playbook")
		l.wantHealth(reconfigure.Health{})
	})
}

// Its job is requeued, its instance is removed as after any failure, and no other one is made.
func TestAFaultOfTheControlHostThatStaysFailsTheNodeAtItsDeadline(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.BrokenPlaybook)
		l.wantVerdicts(map[string]string{"p3": "failed configure: broken playbook"})
		l.want("class", reconfigure.ClassAnsible, l.classes["p3"])
		if took := l.round.after["p3"]; took < 8*time.Minute || took > 9*time.Minute {
			l.Errorf("it failed after %s", took)
		}
		l.wantAttempts("p3", 1)
		l.wantOrder("down p3: ansible-failed: broken playbook", "power_down p3")
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
		l.wantHealth(reconfigure.Health{})
	})
}

// TestARunThatHangsAfterOneThatFailedSaysWhatFailed lets the deadline expire during the second run.
func TestARunThatHangsAfterOneThatFailedSaysWhatFailed(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.BrokenPlaybook)
		l.Then(simulate.AfterConfigure, func() {
			l.Takes(simulate.Reading, time.Hour)
			l.Clear(simulate.BrokenPlaybook)
		})
		l.wantVerdicts(map[string]string{
			"p3": "failed configure: it was not ready before Slurm gives it up: broken playbook",
		})
		l.want("class", reconfigure.ClassAnsible, l.classes["p3"])
		l.wantAttempts("p3", 1)
		l.wantHealth(reconfigure.Health{})
	})
}

// TestWithoutADeadlineTheRunIsRepeatedAFewTimes is for an update that a person asks for. A deploy is not repeated,
// since it may stop slurmctld each time.
func TestWithoutADeadlineTheRunIsRepeatedAFewTimes(t *testing.T) {
	for name, tc := range map[string]struct {
		everywhere bool
		runs       int
	}{"an update": {false, 5}, "a deploy": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.Order(simulate.BrokenPlaybook)
				runs := 0
				l.deps.Configurer = countingRuns{l.deps.Configurer, &runs}
				l.wants(reconfigure.Configure, "p1")
				l.plan.Everywhere = tc.everywhere
				l.wantVerdicts(map[string]string{"p1": "failed configure: broken playbook"})
				l.want("runs", tc.runs, runs)
			})
		})
	}
}

type countingRuns struct {
	operation.Configurer
	runs *int
}

func (c countingRuns) Configure(ctx context.Context, cluster reconfigure.Cluster,
	instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch operation.Watch,
	done func(string, reconfigure.Configured, error)) (reconfigure.Failures, error) {
	*c.runs++
	return c.Configurer.Configure(ctx, cluster, instances, extent, watch, done)
}

// A job that needs the node no more ends the wait for the playbooks.
func TestANodeThatIsGivenUpDoesNotWaitForThePlaybooks(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3", "p4")
		l.cluster.Partitions = []reconfigure.Partition{{Name: "mpi", Groups: []string{"group"}, AllOrNothing: true}}
		l.plan.Jobs = []reconfigure.Job{{ID: 12, Nodes: nodeset.Of("p3", "p4"), Partition: "mpi"}}
		for _, node := range []string{"p3", "p4"} {
			l.change(node).ForJobs = true
		}
		l.Order(simulate.BrokenPlaybook)
		l.Order(simulate.NoValidHost, "p4")
		l.carry()
		if v := l.round.verdicts["p3"]; !strings.Contains(v.Reason, "given up") || l.round.after["p3"] > time.Minute {
			l.Errorf("p3 after %s: %+v", l.round.after["p3"], v)
		}
	})
}

// An administrator who has drained a node wants to inspect its instance. That of the first attempt is removed for the
// second, which gets none: what is left of it in the cloud is no instance to inspect.
func TestADrainKeepsNothingOfAnAttemptThatMadeNoInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersUp("p3")
		l.asks(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("p3")})
		l.change("p3").Retries = 1
		l.Drained("looked at by root", "p3")
		l.Order(simulate.RebootFails, "p3")
		l.Order(simulate.NoValidHost, "p3")
		l.carry()
		l.wantOrder("apply delete p3", "apply create p3", "apply delete p3")
		l.want("instance", reconfigure.Instance{}, l.Node("p3").Instance)
	})
}
