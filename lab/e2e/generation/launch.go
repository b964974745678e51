package generation

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// aJobOutlivesItsLaunchProgram cancels a job that waits for a node, requeues another since its node is DOWN, and lets
// the next one wait while slurmctld restarts and its launch program is killed.
func (l *Lab) aJobOutlivesItsLaunchProgram(t *testing.T) {
	submit := func() (job string) {
		job = l.Job(t, "--nodelist=node02", "--wrap=true")
		l.awaitLaunchProgram(t)
		return job
	}
	job := submit()
	l.On(t, cluster.ControlNodeName, "scancel", job)
	l.AwaitJob(t, job, "CANCELLED")
	l.awaitNoLaunchProgram(t)

	job = submit()
	l.On(t, cluster.ControlNodeName, "scontrol", "update", "nodename=node02", "state=down", "reason=broken")
	l.AwaitJob(t, job, "PENDING")
	l.awaitNoLaunchProgram(t)
	l.On(t, cluster.ControlNodeName, "scancel", job)
	l.On(t, cluster.ControlNodeName, "scontrol", "update", "nodename=node02", "state=resume")
	l.AwaitQuiet(t)

	job = submit()
	l.On(t, cluster.ControlNodeName, "systemctl", "restart", "slurmctld")
	l.awaitLaunchProgram(t)
	l.On(t, cluster.ControlNodeName, "pkill", "-KILL", "-f", launchProgram)
	l.AwaitJob(t, job, "COMPLETED")
	if text := l.On(t, cluster.ControlNodeName, "scontrol", "--oneliner", "show", "job", job); !strings.Contains(text,
		" Restarts=0 ") {
		t.Errorf("the job was requeued: %s", text)
	}
	if by := l.launchedBy(t, job); by != "job_time_limit" {
		t.Errorf("the job was launched by %s, not by slurmctld's timer", by)
	}
	l.AwaitQuiet(t)
}

const launchProgram = "launch.sh"

func (l *Lab) awaitLaunchProgram(t *testing.T) {
	t.Helper()
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		return l.Command(cluster.ControlNodeName, "pgrep", "-f", launchProgram).Run() == nil, "no launch program runs"
	})
}

func (l *Lab) awaitNoLaunchProgram(t *testing.T) {
	t.Helper()
	l.Eventually(t, harness.JobPatience, func() (bool, string) {
		out, err := l.Command(cluster.ControlNodeName, "pgrep", "-af", launchProgram).Output()
		return err != nil, fmt.Sprintf("left: %s", out)
	})
}

// assertLaunchedAtOnce fails unless a job was launched because its launch program ended.
func (l *Lab) assertLaunchedAtOnce(t *testing.T, job string) {
	t.Helper()
	if by := l.launchedBy(t, job); by != "prolog_running_decr" {
		t.Errorf("job %s was launched by %s, not by the end of its prolog", job, by)
	}
}

// launchedBy returns the function of slurmctld that noticed that a job's nodes are up, as its log says.
func (l *Lab) launchedBy(t *testing.T, job string) string {
	t.Helper()
	log := l.On(t, cluster.ControlNodeName, "cat", "/var/log/slurm/slurmctld.log")
	found := regexp.MustCompile(fmt.Sprintf(`(\w+): Configuration for JobId=%s (is )?complete`, job)).FindStringSubmatch(log)
	if found == nil {
		return "nothing"
	}
	return found[1]
}
