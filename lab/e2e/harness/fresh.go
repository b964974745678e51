package harness

import (
	"context"
	"fmt"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// DeployAfter deploys when the test has ended. Call it before Redeclare, so that the old declaration is restored first.
func (l *Lab) DeployAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { // the test's context has ended
		if out, err := l.Reconfigure(context.Background(), "deploy").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// IgnoreTheEndOfJobs keeps a node of a partition with fresh instances up after its job.
func (l *Lab) IgnoreTheEndOfJobs(t *testing.T, node string) {
	t.Helper()
	l.On(t, node, "sed", "-i", "/^epilog_slurmd/,$ s/leave/true/", "/etc/slurm/fresh.sh")
}

// AwaitRefused waits until the node that a job got has requeued the job.
func (l *Lab) AwaitRefused(t *testing.T, id string) {
	t.Helper()
	l.Eventually(t, JobPatience, func() (bool, string) {
		restarts, err := l.JobField(id, "Restarts")
		return restarts == "1", fmt.Sprintf("job %s has %s restarts, and was not refused (%v)", id, restarts, err)
	})
}

// Restart starts a requeued job without Slurm's delay.
func (l *Lab) Restart(t *testing.T, id string) {
	t.Helper()
	l.Eventually(t, JobPatience, func() (bool, string) {
		state, err := l.JobState(id)
		if state == "PENDING" {
			err = l.Command(cluster.ControlNodeName, "scontrol", "update", "jobid="+id, "starttime=now").Run()
		}
		return state == "PENDING" && err == nil, fmt.Sprintf("job %s is %s (%v)", id, state, err)
	})
}
