package operation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

func TestAStoppedNodeThatIsUnhealthyIsRetriedOnAFreshInstance(t *testing.T) {
	resting(t, reconfigure.IdleStop, func(l *lab) {
		was, before := l.Node("p3").Instance.ID, len(l.Calls())
		l.resumed("p3")
		c := l.change("p3")
		c.Deadline, c.Retries = time.Now().Add(9*time.Minute), 1
		l.Order(simulate.Unhealthy, "p3")
		l.Then(simulate.AfterApply, func() {})                              // the start
		l.Then(simulate.AfterApply, func() { l.Clear(simulate.Unhealthy) }) // the removal of the unhealthy instance
		l.wantDone("p3")
		l.wantNote("retried on a fresh instance: unhealthy")
		l.want("its job", "ALLOCATED+CLOUD", l.Node("p3").State)
		if l.Node("p3").Instance.ID == was {
			l.Error("it has the same instance")
		}
		runs := 0
		for _, call := range l.since(before) {
			if strings.HasPrefix(call, "configure p3") {
				runs++
			}
		}
		l.want("runs of the playbooks, all on the fresh instance", 1, runs)
	})
}

func TestSlurmdOfAnUnhealthyNodeDoesNotStart(t *testing.T) {
	test(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.Unhealthy, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed configure: unhealthy"})
		l.wantAttempts("p3", 2)
		l.want("class", reconfigure.ClassUnhealthy, l.classes["p3"])
		l.wantOrder("down p3", "power_down p3")
		l.wantNever("start slurmd on p3")
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
		kept := 0
		for _, e := range l.Evidence() {
			if e.Kind == reconfigure.WitnessTask && strings.Contains(e.Text, "health check on") {
				kept++
			}
		}
		l.want("the output of the check, as evidence of each attempt", 2, kept)
	})
}

func TestAPersistentNodeThatIsUnhealthyStaysDrained(t *testing.T) {
	test(t, func(l *lab) {
		l.drained(reconfigure.Replace, "p2")
		l.Order(simulate.Unhealthy, "p2")
		l.wantVerdicts(map[string]string{"p2": "failed configure: unhealthy"})
		n := l.Node("p2")
		if !strings.Contains(n.State, "DRAIN") || !strings.Contains(n.Reason, "unhealthy") {
			l.Errorf("p2 is %+v", n)
		}
	})
}

// The tool starts slurmd of a persistent node that has ended, for example.
func TestAPersistentNodeThatIsOnlyConfiguredAndUnhealthyIsDrained(t *testing.T) {
	test(t, func(l *lab) {
		l.Switch("p1", reconfigure.PowerOff)
		l.Switch("p1", "") // slurmd does not start at boot
		l.wants(reconfigure.Configure, "p1")
		l.Order(simulate.Unhealthy, "p1")
		l.wantVerdicts(map[string]string{"p1": "failed configure: unhealthy"})
		if n := l.Node("p1"); !strings.Contains(n.State, "DRAIN") {
			l.Errorf("p1 is %+v", n)
		}
	})
}

// checks plans health checks of nodes.
func (l *lab) checks(nodes ...string) {
	l.wants(reconfigure.CheckHealth, nodes...)
	for i := range l.plan.Changes {
		l.plan.Changes[i].Reason = reconfigure.PurposeHealth
	}
}

func TestANodeIsDrainedDuringItsHealthCheck(t *testing.T) {
	test(t, func(l *lab) {
		l.checks("p1")
		l.wantVerdicts(map[string]string{"p1": "done"})
		l.wantOrder("drain p1: health check", "check health of p1", "undrain p1")
		l.want("state", simulate.Node{State: "IDLE"}.State, l.Node("p1").State)
	})
}

func TestANodeThatDoesNotPassStaysDrainedUntilItPasses(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.Order(simulate.Unhealthy, "p1", "p3")
		l.checks("p1", "p3")
		l.wantVerdicts(map[string]string{"p1": "failed verify: unhealthy", "p3": "failed verify: unhealthy"})
		for node, state := range map[string]string{"p1": "IDLE+DRAIN", "p3": "IDLE+CLOUD+DRAIN"} {
			l.want("reason", "reconfigure: unhealthy: unhealthy", l.Node(node).Reason)
			l.want("state", state, l.Node(node).State)
		}
		l.wantNever("undrain", "down", "power_down")
		l.Clear(simulate.Unhealthy)
		l.restart()
		l.plan = reconfigure.Plan{}
		l.checks("p1", "p3")
		l.wantVerdicts(map[string]string{"p1": "done", "p3": "done"})
		l.want("state", "IDLE", l.Node("p1").State)
		l.want("state", "IDLE+CLOUD", l.Node("p3").State)
	})
}

func TestAHealthCheckKeepsTheDrainOfSomebodyElse(t *testing.T) {
	for _, healthy := range []bool{true, false} {
		test(t, func(l *lab) {
			if !healthy {
				l.Order(simulate.Unhealthy, "p1")
			}
			l.Drained("a disk is replaced", "p1")
			l.checks("p1")
			verdicts := l.carry()
			l.want("done", healthy, verdicts["p1"] == "done")
			l.want("reason", "a disk is replaced", l.Node("p1").Reason)
			l.wantNever("undrain", "drain")
		})
	}
}

func TestANodeWithAJobIsNotChecked(t *testing.T) {
	test(t, func(l *lab) {
		l.checks("p1")
		l.StartJob("p1")
		l.wantVerdicts(map[string]string{"p1": "failed drain: a job has begun on it, so it is not checked"})
		l.want("class", reconfigure.ClassBusy, l.classes["p1"])
		l.wantNever("check health")
		if n := l.Node("p1"); strings.Contains(n.State, "DRAIN") || !n.Job {
			l.Errorf("p1 is %+v", n)
		}
	})
}
