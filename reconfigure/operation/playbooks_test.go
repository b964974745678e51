package operation_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// also starts another plan a moment later, beside the first.
func (l *lab) also(after time.Duration, a reconfigure.Action, node string) (first, second *round) {
	l.Helper()
	first = l.start()
	time.Sleep(after)
	l.plan = reconfigure.Plan{}
	l.wants(a, node)
	return first, l.start()
}

func (r *round) wantDone() {
	r.Helper()
	for node, v := range r.wait() {
		if v.Status != reconfigure.StatusDone {
			r.Errorf("%s: %+v", node, v)
		}
	}
}

// While one node boots, another one is configured. The inventory has both.
func TestInventoryHasTheNodesOfAllOperations(t *testing.T) {
	test(t, func(l *lab) {
		l.Takes(simulate.Booting, time.Minute, "p3")
		l.wants(reconfigure.Create, "p3")
		first, second := l.also(5*time.Second, reconfigure.Create, "p4")
		first.wantDone()
		second.wantDone()
		l.wantOrder("configure p4 of ctl,p[1-4] apart from p3", "configure p3 of ctl,p[1-4]")
	})
}

// A persistent node that reboots stays in the inventory: without it slurm.conf would change, and slurmctld would read
// it and forget the reboot.
func TestANodeThatRebootsIsNotForgotten(t *testing.T) {
	test(t, func(l *lab) {
		l.Reboots("p1")
		l.Takes(simulate.Booting, time.Minute, "p1")
		l.wants(reconfigure.Reboot, "p1")
		first, second := l.also(5*time.Second, reconfigure.Create, "p4")
		first.wantDone()
		second.wantDone()
		l.wantOrder("reboot p1", "configure p4 of ctl,p[1-2,4] apart from p1", "configure p1 of ctl,p[1-2,4]")
	})
}

func TestFailedNodeIsNotInTheInventory(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.NoSSH, "p3")
		l.PowersUp("p3")
		l.Takes(simulate.Removing, 20*time.Second, "p3")
		l.wants(reconfigure.Create, "p3")
		first, second := l.also(2*time.Minute+5*time.Second, reconfigure.Create, "p4")
		second.wantDone()
		first.wait()
		l.wantOrder("down p3", "apply delete p3", "configure p4 of ctl,p[1-4] apart from p3")
	})
}

func TestRemovedNodeIsNotInTheInventory(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.NoSSH, "p3")
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.carry()
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p4")
		l.wantDone("p4")
		l.wantOrder("configure p4 of ctl,p[1-2,4]")
	})
}

// A node is done as soon as the playbooks are done with it, and the next run takes all that have come meanwhile.
func TestPlaybooksAnswerNodeByNode(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3", "p4", "p5", "p6")
		l.Takes(simulate.Playing, 10*time.Second)
		l.Takes(simulate.Playing, 24*time.Second, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		first := l.start()
		time.Sleep(10 * time.Second)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p5")
		second, third := l.also(3*time.Second, reconfigure.Create, "p6")
		first.wantDone()
		second.wantDone()
		third.wantDone()
		l.wantOrder("configure p[3-4]", "configure p[5-6]")
		if took := first.up("p3"); took > 13*time.Second {
			l.Errorf("p3 is up after %s", took)
		}
	})
}

// Slurmd starts slowly. Meanwhile the node gets the addresses of new nodes.
func TestAConfiguredNodeGetsTheAddressesOfNewOnes(t *testing.T) {
	test(t, func(l *lab) {
		l.Takes(simulate.Registering, time.Minute)
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3")
		first, second := l.also(30*time.Second, reconfigure.Create, "p4")
		first.wantDone()
		second.wantDone()
		l.wantOrder("configure p3 of ctl,p[1-3]", "configure p4 of ctl,p[1-4]")
	})
}

// large does what test does, in a world with up to 250 nodes.
func large(t *testing.T, do func(*lab)) {
	t.Helper()
	c := declared()
	c.Groups[0].Width, c.Groups[0].Max = 3, 250
	emptyOf(t, c, func(l *lab) {
		l.Have("ctl", "p001", "p002")
		do(l)
	})
}

// wantsMany adds the creation of nodes to the next plan.
func (l *lab) wantsMany(nodes string) {
	l.Helper()
	many, err := nodeset.Parse(nodes)
	if err != nil {
		l.Fatal(err)
	}
	l.PowersUp(many.Names()...)
	l.wants(reconfigure.Create, many.Names()...)
}

// runs returns the nodes of each run of the playbooks.
func (l *lab) runs() (runs []nodeset.NodeSet) {
	for _, call := range l.Calls() {
		_, call, _ = strings.Cut(call, "configure ")
		names, _, _ := strings.Cut(call, " of ")
		if run, err := nodeset.Parse(names); err == nil && !run.Empty() {
			runs = append(runs, run)
		}
	}
	return runs
}

// With more nodes than forks, Ansible takes a core to wait for a fork. But a run for every node has all of them, since
// it may stop slurmctld.
func TestManyNodesAreConfiguredInSeveralRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		everywhere bool
		want       []int // nodes in each run
	}{
		"some nodes": {false, []int{50, 50, 50, 50, 48}},
		"every node": {true, []int{249}}, // with the control node
	} {
		t.Run(name, func(t *testing.T) {
			large(t, func(l *lab) {
				l.wantsMany("p[003-250]")
				if l.plan.Everywhere = tc.everywhere; tc.everywhere {
					l.wants(reconfigure.Configure, "ctl")
				}
				l.start().wantDone()
				var sizes []int
				for _, run := range l.runs() {
					sizes = append(sizes, run.Len())
				}
				l.want("runs", tc.want, sizes)
			})
		})
	}
}

func TestARunHasAsManyNodesAsAnsibleHasForks(t *testing.T) {
	cfg, err := os.ReadFile("../../ansible/ansible.cfg")
	if err != nil {
		t.Fatal(err)
	}
	large(t, func(l *lab) {
		l.wantsMany("p[003-250]")
		l.start().wantDone()
		if forks := fmt.Sprintf("\nforks = %d\n", l.runs()[0].Len()); !strings.Contains(string(cfg), forks) {
			l.Errorf("ansible.cfg has no %q", forks)
		}
	})
}

// One plan's node that still boots does not delay a node of another plan.
func TestThePlaybooksDoNotWaitForNodesOfOtherPlans(t *testing.T) {
	up := func(boot time.Duration) (after time.Duration) {
		test(t, func(l *lab) {
			l.PowersUp("p3", "p4", "p5")
			l.Takes(simulate.Booting, boot, "p3")
			l.Takes(simulate.Registering, time.Minute, "p4")
			l.wants(reconfigure.Create, "p3", "p4")
			first, second := l.also(20*time.Second, reconfigure.Create, "p5")
			first.wantDone()
			second.wantDone()
			after = second.up("p5")
		})
		return after
	}
	if without, with := up(time.Second), up(time.Minute); with > without {
		t.Errorf("it is up after %s, and without the other one after %s", with, without)
	}
}

// A run with as many nodes as Ansible has forks leaves forks idle when half of its nodes are done.
func TestTheNextRunBeginsWhenHalfOfAFullOneIsDone(t *testing.T) {
	large(t, func(l *lab) {
		l.Takes(simulate.Playing, 10*time.Second)
		l.Takes(simulate.Playing, 14*time.Second, "p003") // which is not stuck
		l.wantsMany("p[003-052]")
		first := l.start()
		time.Sleep(5 * time.Second)
		l.plan = reconfigure.Plan{}
		l.wantsMany("p[053-060]")
		second := l.start()
		first.wantDone()
		second.wantDone()
		if after := second.up("p060"); after > 17*time.Second {
			l.Errorf("p060 is up after %s", after)
		}
	})
}

// Ansible starts while instances are made, and waits for as long as a node of the round may need it.
func TestAnsibleIsPreparedWhileInstancesAreMade(t *testing.T) {
	test(t, func(l *lab) {
		var begun, ended time.Duration
		calls, start := 0, time.Now()
		l.deps.Prepare = func(ctx context.Context, _ reconfigure.Cluster) {
			calls++
			begun = time.Since(start)
			<-ctx.Done()
			ended = time.Since(start)
		}
		l.Takes(simulate.Booting, time.Minute, "p3")
		l.wants(reconfigure.Create, "p3")
		l.carry()
		synctest.Wait()
		if calls != 1 || begun != 0 || ended < time.Minute || ended != time.Since(start) {
			t.Errorf("%d preparations, from %s to %s; the round ended after %s", calls, begun, ended, time.Since(start))
		}
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Reboot, "p1")
		l.Reboots("p1")
		l.carry()
		synctest.Wait()
		if calls != 1 {
			t.Error("a reboot was prepared")
		}
	})
}
