package generation

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// aJobOutlivesItsLaunchProgram cancels a job that waits for a node, and requeues two others, one since its node is DOWN
// and one by scontrol. The next job waits while slurmctld reads its configuration again, and the last one while
// slurmctld restarts and its launch program is killed.
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
	// Slurm rejects it if the node is no longer DOWN, since its slurmd has registered.
	l.On(t, cluster.ControlNodeName, "sh", "-c", "scontrol update nodename=node02 state=resume ||"+
		" ! scontrol show node node02 | grep State=DOWN")
	l.AwaitQuiet(t)

	job = submit()
	l.On(t, cluster.ControlNodeName, "scontrol", "requeue", job)
	l.AwaitJob(t, job, "PENDING")
	l.awaitNoLaunchProgram(t)
	l.Hurry(t, job)
	l.AwaitJob(t, job, "COMPLETED")
	l.assertLaunchedAtOnce(t, job)
	l.AwaitQuiet(t)

	job = submit()
	l.On(t, cluster.ControlNodeName, "scontrol", "reconfigure")
	l.AwaitJob(t, job, "COMPLETED")
	l.AssertNeverRestarted(t, job)
	l.assertLaunchedAtOnce(t, job)
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

// allPartsOfAJobAreLaunched has the jobs of an array wait for one node, and the parts of a heterogeneous job for two.
func (l *Lab) allPartsOfAJobAreLaunched(t *testing.T) {
	array := l.Job(t, "--array=1-2", "--nodelist=node02", "--wrap=true")
	for _, task := range []string{"_1", "_2"} {
		l.AwaitJob(t, array+task, "COMPLETED")
		l.AssertNeverRestarted(t, array+task)
		l.assertLaunchedAtOnce(t, array+task)
	}
	l.AwaitQuiet(t)

	parts := l.Job(t, "--nodelist=node01", "--wrap=true", ":", "--nodelist=node02")
	l.AwaitJob(t, parts, "COMPLETED")
	l.AssertNeverRestarted(t, parts)
	l.assertLaunchedAtOnce(t, parts+"+0")
	l.assertLaunchedAtOnce(t, parts+"+1")
	l.AwaitQuiet(t)
}

// theControlHostIsAway has a job start although nobody tells the control node of its node.
func (l *Lab) theControlHostIsAway(t *testing.T) {
	job := l.Job(t, "--nodelist=node02", "--wrap=true")
	l.awaitLaunchProgram(t)
	const up = "/usr/local/libexec/reconfigure/up.sh"
	// The call of the control host has an argument, that of launch.sh has none.
	l.On(t, cluster.ControlNodeName, "sed", "-i", "1a [ $# = 0 ] || exit 1 # of the test", up)
	t.Cleanup(func() { l.On(t, cluster.ControlNodeName, "sed", "-i", "/# of the test$/d", up) })
	l.AwaitJob(t, job, "COMPLETED")
	l.AssertNeverRestarted(t, job)
	l.assertLaunchedAtOnce(t, job)
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
	// Of a task or a part, such as 6_1 or 8+0, the log has the number too: JobId=6_1(7).
	found := regexp.MustCompile(`(\w+): Configuration for JobId=` + regexp.QuoteMeta(job) + `(\([0-9]+\))? (is )?complete`).
		FindStringSubmatch(log)
	if found == nil {
		return "nothing"
	}
	return found[1]
}
