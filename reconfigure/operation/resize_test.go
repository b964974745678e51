package operation_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// resized makes the operator use another declaration than the one that was deployed.
func (l *lab) resized(least, most int) {
	c := declared()
	c.Groups[0].Min, c.Groups[0].Max = least, most
	l.cluster = c
	l.plan.Everywhere = true
	l.wants(reconfigure.Configure, "ctl")
}

// gives adds the removal of a persistent node that is drained for it.
func (l *lab) gives(node string) {
	l.Drained("reconfigure: shrink", node)
	l.wants(reconfigure.Remove, node)
	l.plan.Changes[len(l.plan.Changes)-1].HandOver = true
}

func TestShrunkNodeIsHandedToPowerSaving(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(1, 8)
		l.gives("p2")
		l.wantVerdicts(map[string]string{"ctl": "done", "p2": "done"})
		l.want(
			"calls", []string{"apply delete p2", "slurm.conf everywhere, configure ctl of ctl,p1", "power_down p2"}, l.Calls(),
		)
		l.want("state", back, l.Node("p2").State)
	})
}

// Without the new slurm.conf, slurmctld still has the node as a persistent one, and would never power it up again.
func TestShrunkNodeIsNotHandedOverUnlessSlurmReadsItsConfiguration(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(1, 8)
		l.gives("p2")
		l.Order(simulate.PlaybookFails, "ctl")
		l.wantVerdicts(map[string]string{"ctl": "failed configure: playbook fails", "p2": "done"})
		l.want("calls", []string{"apply delete p2", "slurm.conf everywhere, configure ctl of ctl,p1"}, l.Calls())
	})
}

func TestEnlargedNodeKeepsItsJob(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.StartJob("p3")
		before := l.Node("p3")
		l.resized(3, 8)
		l.wants(reconfigure.Configure, "p3")
		l.wantVerdicts(map[string]string{"ctl": "done", "p3": "done"})
		after := before
		after.State = "ALLOCATED"
		l.want("node", after, l.Node("p3"))
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

func TestEnlargedNodeFailsUnlessSlurmReadsItsConfiguration(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(3, 8)
		l.wants(reconfigure.Create, "p3")
		l.Order(simulate.PlaybookFails, "ctl")
		l.wantVerdicts(map[string]string{
			"ctl": "failed configure: playbook fails",
			"p3":  "failed verify: slurmctld runs with an earlier slurm.conf, in which it is still a cloud node",
		})
	})
}

func TestSlurmDoesNotForgetAJob(t *testing.T) {
	test(t, func(l *lab) {
		l.resized(1, 1)
		l.wants(reconfigure.Remove, "p2")
		l.Then(simulate.AfterPreview, func() { l.StartJob("p2") })
		l.wantVerdicts(map[string]string{
			"ctl": "failed configure: slurm.conf is left as it is: without p2, on which a job may run, Slurm would end that job",
			"p2":  "failed apply: left alone: a job runs on it",
		})
		l.want("lost jobs", 0, len(l.Lost()))
		l.want("state", "ALLOCATED", l.Node("p2").State)
	})
}
