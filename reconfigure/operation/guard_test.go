package operation_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

func TestJobThatStartsAfterThePlanKeepsItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4", "p5")
		l.PowersDown("p4")
		l.PowersUp("p6")
		l.wants(reconfigure.Remove, "p3", "p4")
		l.wants(reconfigure.Replace, "p5")
		l.wants(reconfigure.Create, "p6")
		l.Then(simulate.AfterPreview, func() { l.StartJob("p3"); l.StartJob("p5") })
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: left alone: a job runs on it", "p4": "done", "p5": "failed apply: left alone: a job runs on it",
			"p6": "done",
		})
		// The inventory keeps the nodes with jobs.
		l.want("calls", []string{"apply create p6, delete p4", "adopt p6", "configure p6 of ctl,p[1-3,5-6]"}, l.Calls())
		l.want("lost jobs", 0, len(l.Lost()))
		if n := l.Node("p3"); n.Spec != l.Spec("p3") || n.State != "ALLOCATED+CLOUD" {
			l.Errorf("p3 is %+v", n)
		}
	})
}

func TestNodeThatSlurmUsesAgainAfterThePlanIsLeftAlone(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.wants(reconfigure.Remove, "p3")
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: left alone: Slurm has it in use, and may start a job on it at any moment",
		})
		l.want("calls", 0, len(l.Calls()))
	})
}

func TestJobThatStartsAfterThePlanKeepsItsNodeFromAReboot(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p4")
		l.wants(reconfigure.Reboot, "p3", "p4")
		l.wants(reconfigure.Create, "p5")
		l.StartJob("p3")
		l.wantVerdicts(map[string]string{"p3": "failed apply: left alone: a job runs on it", "p4": "done", "p5": "done"})
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

// The replaced node was registered by its image, and has a job, before the other one is rebooted.
func TestRebootOfOneNodeDoesNotEndTheOperationOfAnother(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3", "p4")
		l.Order(simulate.StartsByItself, "p3")
		l.wants(reconfigure.Replace, "p3")
		l.wants(reconfigure.Reboot, "p4")
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "done"})
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestSilentSlurmKeepsInstances(t *testing.T) {
	for action, call := range map[reconfigure.Action]string{
		reconfigure.Remove: "", reconfigure.Replace: "", reconfigure.Reboot: "",
	} {
		t.Run(string(action)+call, func(t *testing.T) {
			test(t, func(l *lab) {
				l.Have("p3")
				l.wants(action, "p3")
				before := l.Node("p3")
				l.Order(simulate.SlurmSilent)
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

func TestSilentSlurmDoesNotKeepNewAndTaintedInstancesFromBeingMade(t *testing.T) {
	test(t, func(l *lab) {
		l.HaveTainted("p3", "p4")
		l.wants(reconfigure.Remove, "p3")
		l.wants(reconfigure.Replace, "p4")
		l.wants(reconfigure.Create, "p5")
		l.Order(simulate.SlurmSilent)
		l.Then(simulate.AfterWait, func() { l.Clear(simulate.SlurmSilent) })
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "done", "p5": "done"})
	})
}

func TestInstanceThatWasTaintedByHandKeepsItsJob(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		l.Taint("p3")
		l.wants(reconfigure.Replace, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed apply: left alone: a job runs on it"})
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestForceRemovesWhateverRuns(t *testing.T) {
	for _, silent := range []bool{false, true} {
		test(t, func(l *lab) {
			l.Have("p3")
			l.StartJob("p3")
			l.wants(reconfigure.Remove, "p3")
			l.change("p3").Force = true
			if silent {
				l.Order(simulate.SlurmSilent)
			}
			l.wantVerdicts(map[string]string{"p3": "done"})
			l.want("lost jobs", []string{"p3"}, l.Lost())
		})
	}
}

// A node that only needs a drain is drained even if other nodes fail. Its request stays deferred.
func TestDrainIsDoneAlthoughOtherNodesFail(t *testing.T) {
	test(t, func(l *lab) {
		l.StartJob("p1")
		l.wants(reconfigure.Drain, "p1")
		l.wants(reconfigure.Create, "p3")
		l.Order(simulate.StateLocked)
		l.wantVerdicts(map[string]string{"p1": "done", "p3": "failed apply: state locked"})
		l.want("state", "ALLOCATED+DRAIN", l.Node("p1").State)
	})
}

func TestOnlyNodesThatAreNotDrainedFail(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.SlurmRefuses, "p2")
		l.wants(reconfigure.Drain, "p1", "p2")
		l.wantVerdicts(map[string]string{"p1": "done", "p2": "failed drain: it could not be drained: Slurm refuses: p2"})
	})
}

// A rejected request of somebody else must not take the node from a job.
func TestRejectionThatSlurmDidNotAskForIsNotTold(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 1, Reason: "no such image"}}
		l.carry()
		l.want("calls", 0, len(l.Calls()))
	})
}

// Slurm gives a node to a job while Terraform runs, and the next slurm.conf would not have that node.
func TestSlurmDoesNotForgetAJobThatWaits(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(2, 3)
		l.wants(reconfigure.Create, "p3")
		l.Then(simulate.AfterApply, func() { l.PowersUp("p8") })
		said := l.carry()
		l.want(
			"control node",
			"failed configure: slurm.conf is left as it is: without p8, on which a job may run, Slurm would end that job",
			said["ctl"],
		)
		l.want("state", "ALLOCATED+CLOUD+POWERING_UP", l.Node("p8").State)
	})
}

// The search for orphans may take minutes. Slurm does not use the node before it, and uses it after it.
func TestGuardChecksJobsLast(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.Drained("reconfigure: update", "p3")
		l.wants(reconfigure.Replace, "p3")
		l.wants(reconfigure.Create, "p4")
		l.Then(simulate.AfterRoom, func() {
			_ = l.Undrain(l.Context(), reconfigure.Plan{Changes: []reconfigure.Change{{Node: "p3"}}}.Nodes())
			l.StartJob("p3")
		})
		l.wantVerdicts(map[string]string{"p3": "failed apply: left alone: a job runs on it", "p4": "done"})
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

// The inventory keeps a node that could not be drained, since it still has its jobs.
func TestNodeThatCouldNotBeDrainedStaysInTheInventory(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.SlurmRefuses, "p1")
		l.wants(reconfigure.Drain, "p1")
		l.wants(reconfigure.Configure, "p2")
		l.carry()
		l.wantOrder("configure p2 of ctl,p[1-2]")
	})
}
