package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// resumes has Slurm power nodes up, and the plan make them; they have so much time, and may be tried once more.
func (l *lab) resumes(within time.Duration, nodes ...string) {
	l.PowersUp(nodes...)
	l.wants(reconfigure.Create, nodes...)
	for i := range l.plan.Changes {
		if c := &l.plan.Changes[i]; slices.Contains(nodes, c.Node) {
			c.Deadline, c.Retry = time.Now().Add(within), true
		}
	}
}

// again carries the plan out, and is the nodes that are to be tried once more.
func (l *lab) again() []string {
	l.Helper()
	verdicts, err := l.try(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	nodes := []string{}
	for node, v := range verdicts {
		if v.Again && v.Status != reconfigure.StatusFailed {
			l.Errorf("%s is to be tried once more, but is %s", node, v.Status)
		}
		if v.Again {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

const waiting = "ALLOCATED+CLOUD+POWERING_UP"

func TestNodeIsTriedOnceMoreForWhatItsInstanceDid(t *testing.T) {
	for fault, class := range map[enginetest.Fault]reconfigure.Class{
		enginetest.NoSSH: reconfigure.ClassSSH, enginetest.PlaybookFails: reconfigure.ClassPlaybook,
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.resumes(9*time.Minute, "p3", "p4")
				l.Order(fault, "p3")
				verdicts, err := l.try(l.Context())
				if err != nil {
					l.Fatal(err)
				}
				if v := verdicts["p3"]; !v.Again || v.Class != class {
					l.Errorf("the verdict is %+v", v)
				}
				l.want("Slurm waits on, and nothing is left of it", enginetest.Node{State: waiting, Job: true}, l.Node("p3"))
				l.want("the other one", "ALLOCATED+CLOUD", l.Node("p4").State)
				for _, call := range l.Calls() {
					if strings.HasPrefix(call, "down") || strings.HasPrefix(call, "power_down") {
						l.Errorf("Slurm was told: %s", call)
					}
				}
				l.want("comments on jobs", 0, len(l.Comments()))
			})
		})
	}
}

func TestRebootOfWhatWasLeftBehindIsTriedOnceMoreOnAFreshInstance(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.resumes(9*time.Minute, "p3")
		l.plan.Changes[0].Action = reconfigure.Reboot
		l.Order(enginetest.RebootFails, "p3")
		l.want("tried again", []string{"p3"}, l.again())
		l.want("node", enginetest.Node{State: waiting, Job: true}, l.Node("p3"))
	})
}

// TestThereIsNoSecondTry where it would be of no use, or would be in somebody's way. Slurm is told, and gets the node back.
func TestThereIsNoSecondTry(t *testing.T) {
	for name, order := range map[string]func(*lab){
		"where it is not allowed":         func(l *lab) { l.plan.Changes[0].Retry = false },
		"where another one took too long": func(l *lab) { l.Takes(enginetest.Booting, 6*time.Minute) },
		"when Slurm has given it up":      func(l *lab) { l.Then(enginetest.AfterGreet, func() { l.GivesUp("p3") }) },
		"when somebody has suspended it":  func(l *lab) { l.Then(enginetest.AfterGreet, func() { l.PowersDown("p3") }) },
		"when the time goes by meanwhile": func(l *lab) {
			l.Takes(enginetest.Booting, 4*time.Minute)
			l.resumes(time.Hour, "p4")
			l.Takes(enginetest.Playing, 2*time.Minute)
		},
		"for want of room":   func(l *lab) { l.Order(enginetest.NoValidHost, "p3") },
		"of a lost instance": func(l *lab) { l.Order(enginetest.LostCreate, "p3") },
		"when the playbook cannot be read": func(l *lab) {
			l.Clear(enginetest.NoSSH)
			l.Order(enginetest.BrokenPlaybook)
		},
		"when nobody could look": func(l *lab) {
			l.Clear(enginetest.NoSSH)
			l.Order(enginetest.NeverRegisters, "p3")
			l.Then(enginetest.AfterConfigure, func() { l.Order(enginetest.CloudSilent) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.resumes(9*time.Minute, "p3")
				l.Order(enginetest.NoSSH, "p3")
				order(l)
				l.want("tried again", []string{}, l.again())
				l.wantOrder("down p3", "power_down p3")
				l.want("state", back, l.Node("p3").State)
			})
		})
	}
}

// Its job need not wait for the others of the batch.
func TestSlurmHearsAtOnceOfANodeThatIsNotTriedOnceMore(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3", "p4")
		l.Takes(enginetest.Booting, 5*time.Minute)
		l.Order(enginetest.NoSSH, "p3")
		l.want("tried again", []string{}, l.again())
		l.wantOrder("down p3", "configure p4", "power_down p3")
	})
}

func TestInstanceThatCannotBeRemovedKeepsItsNodeFromASecondTry(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3")
		l.Order(enginetest.NoSSH, "p3")
		l.Order(enginetest.NeverRemoved, "p3")
		l.want("tried again", []string{}, l.again())
		l.wantNote("it is not tried once more: its instance could not be removed")
		l.wantOrder("down p3: no-ssh: no SSH", "power_down p3")
	})
}

// told notes when Slurm hears of a node that is down.
type told struct {
	engine.Scheduler
	when map[string]time.Duration
	from time.Time
}

func (s told) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	for node := range nodes.All() {
		s.when[node] = time.Since(s.from)
	}
	return s.Scheduler.Down(ctx, nodes, reason)
}

// TestSlurmHearsOfANodeBeforeItGivesItUp whatever keeps the node, and although the others of its batch have all the time that they need.
func TestSlurmHearsOfANodeBeforeItGivesItUp(t *testing.T) {
	const deadline = 90 * time.Second
	for name, c := range map[string]struct {
		order  func(*lab)
		reason string
	}{
		"while Terraform waits":      {func(l *lab) { l.Takes(enginetest.Planning, 5*time.Minute) }, "it was not ready before Slurm gives it up"},
		"while Terraform is at work": {func(l *lab) { l.Takes(enginetest.Applying, 5*time.Minute) }, "boot-timeout: it was not ready before Slurm gives it up"},
		"while it boots": {func(l *lab) {
			l.Takes(enginetest.Booting, 5*time.Minute)
			l.Order(enginetest.NoSSH, "p3")
		}, "no-ssh: no SSH"},
		"while it boots, and another one does": {func(l *lab) {
			l.Takes(enginetest.Booting, 5*time.Minute)
			l.Order(enginetest.NoSSH, "p3", "p5")
		}, "boot-timeout: it was not ready before Slurm gives it up"},
		"while the playbooks run": {func(l *lab) { l.Takes(enginetest.Playing, 5*time.Minute) }, "playbook: it was not ready before Slurm gives it up"},
		"while slurmd starts": {func(l *lab) {
			l.Takes(enginetest.Playing, time.Minute)
			l.Order(enginetest.NeverRegisters, "p3")
		}, "unregistered: slurmd did not register in time: Slurm has it as " + waiting},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				heard := told{when: map[string]time.Duration{}, from: time.Now()}
				deps := l.Deps()
				deps.Scheduler = func(reconfigure.Instance) engine.Scheduler {
					heard.Scheduler = l.World
					return heard
				}
				l.engine = engine.New(declared(), deps)
				l.resumes(deadline, "p3")
				l.resumes(time.Hour, "p4")
				l.wants(reconfigure.Create, "p5", "p6")
				c.order(l)
				verdicts := l.carry()
				l.want("p4 and p6", "done done", verdicts["p4"]+" "+verdicts["p6"])
				if when, ok := heard.when["p3"]; !ok || when > deadline || when < deadline-3*time.Second {
					l.Errorf("Slurm heard of p3 after %s: %s", when, verdicts["p3"])
				}
				l.wantFailedEvent("p3", c.reason)
				l.want("state", back, l.Node("p3").State)
				l.want("lost jobs", 0, len(l.Lost()))
			})
		})
	}
}

// The job that waits would begin on it while it is being removed.
func TestNoSecondTryOfANodeWhoseSlurmdWasStarted(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3")
		l.Order(enginetest.NeverRegisters, "p3")
		l.want("tried again", []string{}, l.again())
		l.wantOrder("down p3: unregistered: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP", "apply delete p3", "power_down p3")
	})
}

// The image has slurmd set up, which registers while Terraform removes the instance.
func TestANodeThatComesUpWhileItIsRemovedIsNotLeftToSlurm(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3")
		l.Order(enginetest.StartsByItself, "p3")
		l.Order(enginetest.PlaybookFails, "p3")
		l.Takes(enginetest.Applying, 30*time.Second)
		l.RegisterAfter(10 * time.Second)
		l.want("tried again", []string{}, l.again())
		l.want("state", back, l.Node("p3").State)
	})
}

// The playbooks of the others take longer than there is time for another try.
func TestSlurmHearsOfANodeWhoseTimeForAnotherTryIsOver(t *testing.T) {
	test(t, func(l *lab) {
		heard := told{when: map[string]time.Duration{}, from: time.Now()}
		deps := l.Deps()
		deps.Scheduler = func(reconfigure.Instance) engine.Scheduler {
			heard.Scheduler = l.World
			return heard
		}
		l.engine = engine.New(declared(), deps)
		l.resumes(9*time.Minute, "p3")
		l.wants(reconfigure.Create, "p5")
		l.Order(enginetest.NoSSH, "p3")
		l.Takes(enginetest.Booting, 2*time.Minute)
		l.Takes(enginetest.Playing, 50*time.Minute)
		l.want("tried again", []string{}, l.again())
		if when := heard.when["p3"]; when < 6*time.Minute || when > 7*time.Minute+5*time.Second {
			l.Errorf("Slurm heard of it after %s", when)
		}
		l.want("state", back, l.Node("p3").State)
		l.wantNote("it is not tried once more: there is not the time for it")
	})
}

// The sweep takes so long that there is no time left. What an earlier try has left is removed.
func TestNothingIsMadeThatIsTooLate(t *testing.T) {
	test(t, func(l *lab) {
		l.HaveTainted("p3")
		l.resumes(time.Minute, "p3", "p4")
		l.plan.Changes[0].Action = reconfigure.Replace
		l.Then(enginetest.AfterRoom, func() { time.Sleep(2 * time.Minute) })
		l.want("tried again", []string{}, l.again())
		l.want("calls", []string{"down p[3-4]: it was not ready before Slurm gives it up", "apply delete p3", "power_down p[3-4]"}, l.Calls())
	})
}

func TestPreviewOfWhatIsTooLateIsNotApplied(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(time.Minute, "p3")
		l.wants(reconfigure.Create, "p5")
		l.Takes(enginetest.Planning, 2*time.Minute)
		l.want("tried again", []string{}, l.again())
		l.want("calls", []string{
			"down p3: it was not ready before Slurm gives it up", "apply create p5", "configure p5 of ctl,p[1-2,5]", "power_down p3",
		}, l.Calls())
	})
}

// A run of the playbooks that nobody waits for any more is ended.
func TestPlaybooksEndWithTheLastNodeThatTheyAreFor(t *testing.T) {
	test(t, func(l *lab) {
		begun := time.Now()
		l.resumes(time.Minute, "p3")
		l.resumes(2*time.Minute, "p4")
		l.Have("p7")
		l.PowersDown("p7")
		l.wants(reconfigure.Remove, "p7")
		l.Takes(enginetest.Playing, 50*time.Minute)
		verdicts := l.carry()
		l.want("the removed one", "done", verdicts["p7"])
		if took := time.Since(begun); took > 3*time.Minute {
			l.Errorf("it took %s: %v", took, verdicts)
		}
	})
}

func TestEvidenceIsKeptOfWhatFailed(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3", "p4", "p5", "p6")
		l.Order(enginetest.NoSSH, "p3")
		l.Order(enginetest.PlaybookFails, "p4")
		l.Order(enginetest.NeverRegisters, "p5")
		l.Have("p7")
		l.PowersDown("p7")
		l.wants(reconfigure.Remove, "p7")
		l.Order(enginetest.NeverRemoved, "p7")
		l.Then(enginetest.AfterGreet, func() { l.Print(l.Servers()["p4"], strings.Repeat("a line\n", 20_000)+"the last line\n") })
		l.again()
		got := map[string]string{}
		for _, e := range l.Evidence() {
			if e.Batch != 7 || e.Time.IsZero() || len(e.Text) > reconfigure.EvidenceLimit {
				l.Errorf("evidence of batch %d at %s of %d bytes", e.Batch, e.Time, len(e.Text))
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

func TestWhatTheCloudDoesNotShowFailsNothing(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, "p3")
		l.Order(enginetest.NoSSH, "p3")
		l.Then(enginetest.AfterApply, func() { l.Order(enginetest.CloudSilent) })
		l.want("tried again", []string{"p3"}, l.again())
		l.wantNote("its console log cannot be had: cloud silent")
		l.want("evidence", 0, len(l.Evidence()))
	})
}
