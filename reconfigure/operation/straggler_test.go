package operation_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// up returns the time from the beginning of a round until the slurmd of a node has registered.
func (r *round) up(node string) time.Duration { return r.Registered(node).Sub(r.began) }

// A node is configured while the provider still waits.
func TestNodeIsUpBeforeTerraformReturns(t *testing.T) {
	test(t, func(l *lab) {
		l.cluster.Settings.Interrupt = false
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantDone("p3", "p4")
		l.want("calls", []string{"apply create p[3-4]", "configure p[3-4] of ctl,p[1-4]"}, l.Calls())
		if up := l.round.up("p3"); up > 3*time.Second {
			l.Errorf("it is up after %s", up)
		}
		if done := l.round.after["p3"]; done < 10*time.Second || done > 11*time.Second { // with Terraform's own verdict
			l.Errorf("it is done after %s", done)
		}
	})
}

func TestTerraformIsInterruptedWhenAllServersAreAsAsked(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p5", "p6")
		l.PowersUp("p3")
		l.PowersDown("p5")
		l.Drained("reconfigure: update", "p6")
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Remove, "p5")
		l.wants(reconfigure.Replace, "p6")
		l.change("p6").Spec.ImageID = "id-of-v2"
		l.wantDone("p3", "p5", "p6")
		l.want(
			"calls", []string{"apply create p3, delete p5, rebuild p6", "adopt p[3,6]", "configure p[3,6] of ctl,p[1-3,6]"},
			l.Calls(),
		)
		for _, node := range []string{"p3", "p5", "p6"} {
			if took := l.round.after[node]; took > 4*time.Second {
				l.Errorf("%s took %s", node, took)
			}
		}
		l.want("removed", reconfigure.Instance{}, l.Node("p5").Instance)
		for _, node := range []string{"p3", "p6"} {
			if n := l.Node(node); n.Instance.Tainted || n.Spec != n.Made {
				l.Errorf("%s is %+v", node, n)
			}
		}
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// The old instances are gone long before the provider looks.
func TestReplacementsDoNotWaitForTheProvider(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p5", "p6")
		l.Drained("reconfigure: update", "p5", "p6")
		l.wants(reconfigure.Replace, "p5", "p6")
		l.wantDone("p5", "p6")
		l.want("calls", []string{
			"apply replace p[5-6]", "apply create p[5-6]", "adopt p[5-6]", "configure p[5-6] of ctl,p[1-2,5-6]",
		}, l.Calls())
		for _, node := range []string{"p5", "p6"} {
			if took := l.round.after[node]; took > 6*time.Second {
				l.Errorf("%s took %s", node, took)
			}
		}
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// An instance that Terraform would change is left as it was, which is noted. The node is up, and stays up.
func TestInstanceWithoutProofIsNotAdopted(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4")
		l.Order(simulate.NotProven, "p3")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantDone("p3", "p4")
		l.wantNote("Terraform would change instance.p3")
		l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("tainted", []bool{true, false}, []bool{l.Node("p3").Instance.Tainted, l.Node("p4").Instance.Tainted})
	})
}

// stragglers are ways in which something takes very long, or does not end.
var stragglers = map[string]func(l *lab){
	"a minute in BUILD":     func(l *lab) { l.Takes(simulate.Building, time.Minute, "p3") },
	"for ever in BUILD":     func(l *lab) { l.Takes(simulate.Building, simulate.Forever, "p3") },
	"a minute to boot":      func(l *lab) { l.Takes(simulate.Booting, time.Minute, "p3") },
	"never boots":           func(l *lab) { l.Order(simulate.NoSSH, "p3") },
	"a playbook that hangs": func(l *lab) { l.Takes(simulate.Playing, simulate.Forever, "p3") },
	"a delete that hangs": func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Takes(simulate.Removing, simulate.Forever, "p3")
		l.change("p3").Action = reconfigure.Remove
	},
	"a replacement whose delete hangs": func(l *lab) {
		l.Have("p3")
		l.Drained("reconfigure: update", "p3")
		l.Takes(simulate.Removing, simulate.Forever, "p3")
		l.change("p3").Action = reconfigure.Replace
	},
	"a rebuild that hangs": func(l *lab) {
		l.Have("p3")
		l.Drained("reconfigure: update", "p3")
		l.Takes(simulate.Building, simulate.Forever, "p3")
		l.change("p3").Action, l.change("p3").Spec.ImageID = reconfigure.Replace, "id-of-v2"
	},
}

// The others come up as without the straggler, but for the moment in which the playbooks wait for it, and the next
// request is carried out soon.
func TestStragglerDelaysNoOtherNode(t *testing.T) {
	const first, next, second = "p4", 20 * time.Second, "p6"
	run := func(l *lab, straggle func(l *lab)) (ups [2]time.Duration, ended map[string]reconfigure.Verdict) {
		l.PowersUp("p4", "p5", "p6")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		if straggle != nil {
			straggle(l)
		} else {
			l.plan.Changes = l.plan.Changes[1:]
		}
		l.change("p4").Deadline = time.Now().Add(9 * time.Minute)
		one := l.start()
		time.Sleep(next)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p6")
		two := l.start()
		two.wait()
		ended = one.wait()
		return [2]time.Duration{one.up(first), two.up(second)}, ended
	}
	var without [2]time.Duration
	test(t, func(l *lab) { without, _ = run(l, nil) })
	for name, straggle := range stragglers {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				with, verdicts := run(l, straggle)
				if with[0] > without[0]+operation.DefaultTiming().Quiet {
					l.Errorf("%s is up after %s, and without a straggler after %s", first, with[0], without[0])
				}
				if with[1] > without[1]+15*time.Second {
					l.Errorf("%s is up after %s, and without a straggler after %s:\n%q", second, with[1], without[1], l.Calls())
				}
				for _, node := range []string{"p4", "p5"} {
					if v := verdicts[node]; v.Status != reconfigure.StatusDone {
						l.Errorf("%s: %+v", node, v)
					}
				}
				l.want("lost jobs", 0, len(l.Lost()))
				l.want("doubled", 0, len(l.Doubled()))
			})
		})
	}
}

// Terraform changes a limited number of resources at a time. When it is interrupted, because of another node of the
// run that does not come and a request that waits, the cloud has not been asked for all changes.
func TestWhatTheCloudWasNotAskedForIsAskedForAgain(t *testing.T) {
	for _, fault := range []simulate.Fault{simulate.NotReached, simulate.NotSent} {
		for _, action := range []reconfigure.Action{reconfigure.Create, reconfigure.Replace, reconfigure.Remove} {
			t.Run(string(fault)+", "+string(action), func(t *testing.T) {
				test(t, func(l *lab) {
					l.Order(fault, "p4")
					l.Takes(simulate.Building, 5*time.Minute, "p3")
					l.PowersUp("p3", "p5")
					switch action {
					case reconfigure.Create:
						l.PowersUp("p4")
					case reconfigure.Replace:
						l.Have("p4")
						l.Drained("reconfigure: update", "p4")
					case reconfigure.Remove:
						l.Have("p4")
						l.PowersDown("p4")
					}
					l.wants(reconfigure.Create, "p3")
					l.wants(action, "p4")
					one := l.start()
					time.Sleep(5 * time.Second)
					l.plan = reconfigure.Plan{}
					l.wants(reconfigure.Create, "p5")
					two := l.start()
					two.wait()
					for node, v := range one.wait() {
						if v.Status != reconfigure.StatusDone {
							l.Errorf("%s: %+v", node, v)
						}
					}
					longest := 3 * operation.DefaultTiming().Straggler
					if fault == simulate.NotSent {
						longest += 2 * operation.DefaultTiming().Straggler
					}
					if took := one.after["p4"]; took > longest {
						l.Errorf("p4 is done after %s, not within %s:\n%q", took, longest, l.Calls())
					}
					l.want("orphans", 0, len(l.Orphans()))
					l.want("lost jobs", 0, len(l.Lost()))
				})
			})
		}
	}
}

// A run is not interrupted because Terraform takes long to start, as it does on a busy host.
func TestASlowStartOfTerraformIsNoStraggler(t *testing.T) {
	test(t, func(l *lab) {
		l.Takes(simulate.Applying, 30*time.Second)
		l.PowersUp("p3", "p4", "p5")
		l.wants(reconfigure.Create, "p3", "p4")
		one := l.start()
		time.Sleep(5 * time.Second)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p5")
		l.start().wait()
		one.wait()
		want := []string{"apply create p[3-4]", "adopt p[3-4]", "apply create p5", "adopt p5"}
		got := slices.DeleteFunc(l.Calls(), func(call string) bool { return strings.HasPrefix(call, "configure ") })
		l.want("calls", want, got)
	})
}

func TestStragglerThatComesIsDone(t *testing.T) {
	test(t, func(l *lab) {
		l.Takes(simulate.Building, time.Minute, "p3")
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantDone("p3", "p4")
		l.wantOrder("apply create p[3-4]", "configure p4", "configure p3")
		l.wantOrder("configure p4", "adopt p3")
		l.want("orphans", 0, len(l.Orphans()))
		if n := l.Node("p3"); n.Instance.Tainted || n.State != "ALLOCATED+CLOUD" {
			l.Errorf("it is %+v", n)
		}
	})
}

func TestStragglerThatFailsHasItsVerdict(t *testing.T) {
	test(t, func(l *lab) {
		l.Takes(simulate.Building, time.Minute, "p3")
		l.Order(simulate.NoValidHost, "p3")
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: No valid host was found: its instance is in ERROR", "p4": "done",
		})
		l.want("nothing is left of it", simulate.Node{State: back}, l.Node("p3"))
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// Terraform fails when the node already runs its job.
func TestLateFailureOfTerraformEndsNoJob(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		test(t, func(l *lab) {
			l.cluster.Settings.Interrupt = interrupt
			l.Order(simulate.LateFailure, "p3")
			l.PowersUp("p3", "p4")
			l.wants(reconfigure.Create, "p3", "p4")
			l.wantDone("p3", "p4")
			l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
			l.want("lost jobs", 0, len(l.Lost()))
			l.want("tainted", false, l.Node("p3").Instance.Tainted)
			l.want("doubled", 0, len(l.Doubled()))
		})
	}
}

// A worker is killed between an interrupt and the adoption, or Terraform before it has written its state.
func TestInstanceOfAKilledRunIsAdopted(t *testing.T) {
	for _, half := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		for name, in := range map[string]time.Duration{
			"while it is built": 500 * time.Millisecond, "when it is ACTIVE": 5 * time.Second,
		} {
			t.Run(string(half)+" "+name, func(t *testing.T) {
				test(t, func(l *lab) {
					l.cluster.Settings.Interrupt = false
					l.KillAfter(in, half)
					l.PowersUp("p3", "p4")
					l.wants(reconfigure.Create, "p3", "p4")
					l.wantDone("p3", "p4")
					l.want("orphans", 0, len(l.Orphans()))
					l.want("doubled", 0, len(l.Doubled()))
					l.want("lost jobs", 0, len(l.Lost()))
					for _, node := range []string{"p3", "p4"} {
						if n := l.Node(node); n.State != "ALLOCATED+CLOUD" || n.Instance.Tainted {
							l.Errorf("%s is %+v", node, n)
						}
					}
				})
			})
		}
	}
}

// The controller dies together with Terraform, when the job already runs. The next one plans to adopt the instance.
func TestInstanceInUseIsAdoptedByTheNextController(t *testing.T) {
	for _, half := range []simulate.Half{simulate.Unwritten, simulate.Unknown, simulate.Tainted} {
		t.Run(string(half), func(t *testing.T) {
			test(t, func(l *lab) {
				l.cluster.Settings.Interrupt = false
				l.PowersUp("p3")
				l.wants(reconfigure.Create, "p3")
				l.KillAfter(5*time.Second, half)
				l.start()
				time.Sleep(4 * time.Second)
				l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
				l.end(reconfigure.ErrLeaseLost)
				l.operator().Wait()
				l.restart()
				l.plan = reconfigure.Plan{}
				l.wants(reconfigure.Adopt, "p3")
				l.wantDone("p3")
				if n := l.Node("p3"); n.State != "ALLOCATED+CLOUD" || n.Instance.ID == "" || n.Instance.Tainted {
					l.Errorf("p3 is %+v", n)
				}
				l.want("lost jobs", 0, len(l.Lost()))
			})
		})
	}
}

// A run that was under way when the plan was made has finished the instance.
func TestFinishedInstanceNeedsNoAdoption(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		l.wants(reconfigure.Adopt, "p3")
		l.wantDone("p3")
		l.wantNever("adopt p3", "apply")
	})
}

func TestAdoptionWhileTheCloudIsSilentSaysSo(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		l.Forget("p3")
		l.wants(reconfigure.Adopt, "p3")
		l.Order(simulate.CloudSilent)
		const why = "failed apply: it is unknown whether the cloud has its instance: cloud silent"
		l.wantVerdicts(map[string]string{"p3": why})
	})
}

// A persistent node that fails keeps its instance, which Terraform has finished when the verdict comes.
func TestVerdictComesWhenTerraformHasSettled(t *testing.T) {
	test(t, func(l *lab) {
		l.cluster.Settings.Interrupt = false
		l.cluster.Groups[0].Min = 3
		l.Order(simulate.PlaybookFails, "p3")
		l.wants(reconfigure.Create, "p3")
		if v := l.start().wait()["p3"]; v.Status != reconfigure.StatusFailed || v.Phase != reconfigure.PhaseConfigure {
			l.Errorf("the verdict is %+v", v)
		}
		if n := l.Node("p3"); n.Instance.ID == "" || n.Instance.Tainted {
			l.Errorf("it is %+v", n)
		}
	})
}

// A few seconds without the cloud's API fail the nodes whose creation is polled, and no others.
func TestPassingFailureIsRetried(t *testing.T) {
	for _, fault := range []simulate.Fault{simulate.LostPoll, simulate.LostCreate} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.cluster.Settings.Interrupt = false
				l.Takes(simulate.Building, 12*time.Second, "p3")
				l.Order(fault, "p3")
				l.PowersUp("p3", "p4")
				l.wants(reconfigure.Create, "p3", "p4")
				time.AfterFunc(8*time.Second, func() { l.Clear(fault) })
				l.wantDone("p3", "p4")
				l.wantNote("tried again in")
				l.want("orphans", 0, len(l.Orphans()))
				l.want("doubled", 0, len(l.Doubled()))
			})
		})
	}
}

func TestPassingFailureIsNotRetriedForever(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.LostAnswer)
		l.Takes(simulate.Building, simulate.Forever)
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.change("p3").Deadline = time.Now().Add(9 * time.Minute)
		verdict := l.start().wait()["p3"]
		if verdict.Status != reconfigure.StatusFailed || l.round.after["p3"] > 10*time.Minute {
			l.Errorf("after %s: %+v", l.round.after["p3"], verdict)
		}
	})
}

// tornState cannot be read once more than so often.
type tornState struct {
	operation.Provisioner
	*testing.T
	reads *int
}

func (s tornState) State(ctx context.Context) (reconfigure.State, error) {
	if *s.reads--; *s.reads < 0 {
		return reconfigure.State{}, errors.New("it is half written")
	}
	return s.Provisioner.State(ctx)
}

func (s tornState) Adopt(
	ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server,
) (nodeset.NodeSet, reconfigure.Failures, error) {
	if len(p.Desired) < 4 {
		s.Errorf("the map of nodes is to have %v alone", slices.Collect(maps.Keys(p.Desired)))
	}
	return s.Provisioner.Adopt(ctx, p, servers)
}

// TestAStateThatCannotBeReadLosesNoNodes has the state of Terraform be half written when the instances of an
// interrupted run are adopted: the map of nodes stays.
func TestAStateThatCannotBeReadLosesNoNodes(t *testing.T) {
	for reads := range 3 {
		test(t, func(l *lab) {
			provisioner := l.deps.Provisioner
			l.deps.Provisioner = func(shard string) operation.Provisioner {
				return tornState{provisioner(shard), t, &reads}
			}
			l.PowersUp("p3")
			l.wants(reconfigure.Create, "p3")
			l.carry()
			l.deps.Provisioner = provisioner
			state, err := provisioner("").State(l.ctx)
			for _, node := range []string{"ctl", "p1", "p2"} {
				if _, there := state.Desired[node]; err != nil || !there {
					l.Errorf("after %d reads the map lacks %s, error %v", reads, node, err)
				}
			}
		})
	}
}
