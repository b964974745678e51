package operation_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
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
