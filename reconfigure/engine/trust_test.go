package engine_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// A node that was only to be drained is drained, whatever becomes of the others: its request goes on waiting.
func TestDrainOutlivesAStageThatFailsForTheOthers(t *testing.T) {
	test(t, func(l *lab) {
		l.StartJob("p1")
		l.wants(reconfigure.Drain, "p1")
		l.wants(reconfigure.Create, "p3")
		l.Order(enginetest.StateLocked)
		l.want("verdicts", map[string]string{"p1": "done", "p3": "failed apply: state locked"}, l.carry())
		l.want("state", "ALLOCATED+DRAIN", l.Node("p1").State)
	})
}

func TestOnlyNodesThatAreNotDrainedFail(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(enginetest.SlurmRefuses, "p2")
		l.wants(reconfigure.Drain, "p1", "p2")
		l.want("verdicts", map[string]string{"p1": "done", "p2": "failed drain: it could not be drained: Slurm refuses: p2"}, l.carry())
	})
}

// Somebody else's wish that nothing could be planned for must not cost a job its node.
func TestRejectionThatSlurmDidNotAskForIsNotTold(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 1, Reason: "no such image"}}
		l.carry()
		l.want("calls", 0, len(l.Calls()))
	})
}

// Slurm gives a node to a job while Terraform is at work, and the next slurm.conf would leave that node out.
func TestSlurmIsNotMadeToForgetAJobThatWaits(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(2, 3)
		l.wants(reconfigure.Create, "p3")
		l.Then(enginetest.AfterApply, func() { l.PowersUp("p8") })
		said := l.carry()
		l.want("control node", "failed configure: slurm.conf is left as it is: without p8, on which a job may run, Slurm would end that job", said["ctl"])
		l.want("state", "ALLOCATED+CLOUD+POWERING_UP", l.Node("p8").State)
	})
}

// To look for orphans may take minutes. The first look has Slurm not use the node, and then it does.
func TestGuardLooksAgainAfterTheSweep(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.Drained("reconfigure: update", "p3")
		l.wants(reconfigure.Replace, "p3")
		l.wants(reconfigure.Create, "p4")
		l.Then(enginetest.AfterRoom, func() {
			_ = l.Undrain(l.Context(), reconfigure.Plan{Changes: []reconfigure.Change{{Node: "p3"}}}.Nodes())
			l.StartJob("p3")
		})
		l.want("verdicts", map[string]string{"p3": "failed apply: left alone: a job runs on it", "p4": "done"}, l.carry())
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

// The others must not forget a node that could not be drained: it has its jobs still.
func TestNodeThatCouldNotBeDrainedStaysKnownToTheOthers(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(enginetest.SlurmRefuses, "p1")
		l.wants(reconfigure.Drain, "p1")
		l.wants(reconfigure.Configure, "p2")
		l.carry()
		l.wantOrder("configure p2 of ctl,p[1-2]")
	})
}
