package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/await"
	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Time limits that suffice on a busy computer.
const (
	JobPatience    = 6 * time.Minute
	IdlePatience   = 5 * time.Minute
	UpdatePatience = 6 * time.Minute
)

// Eventually waits until a condition is true. At the time limit, the test fails with the last text of the condition.
func (l *Lab) Eventually(t *testing.T, patience time.Duration, condition func() (ok bool, said string)) {
	t.Helper()
	var said string
	holds := func() (ok bool) {
		ok, said = condition()
		return ok
	}
	if !await.Until(t.Context(), patience, holds) {
		t.Fatalf("not within %s: %s\n%s\n%s", patience, said, l.SlurmLogs(), l.WorkerLogs())
	}
}

// WorkerLogs returns the end of the logs of the worker and its child processes, for failure messages.
func (l *Lab) WorkerLogs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(l.StateDir(), "log", "*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		const last = 4000
		fmt.Fprintf(&all, "== %s\n%s\n", filepath.Base(file), text[max(0, len(text)-last):])
	}
	return all.String()
}

// SlurmLogs returns Slurm's nodes, jobs and the end of its logs, for failure messages.
func (l *Lab) SlurmLogs() string {
	out, _ := l.Command(cluster.ControlNodeName, "sh", "-c",
		"sinfo -N -l; squeue; tail -n 40 /var/log/slurm/*.log").CombinedOutput()
	return string(out)
}

// AwaitJob waits for a job's state.
func (l *Lab) AwaitJob(t *testing.T, id, state string) {
	t.Helper()
	l.Eventually(t, JobPatience, func() (bool, string) {
		got, err := l.JobState(id)
		return got == state, fmt.Sprintf("job %s is %s, not %s (%v)", id, got, state, err)
	})
}

// AwaitQuiet waits until no cloud node has an instance, Slurm can use every node, and no worker runs.
func (l *Lab) AwaitQuiet(t *testing.T) {
	t.Helper()
	l.Eventually(t, IdlePatience, func() (bool, string) {
		nodes, err := l.Nodes()
		if err != nil {
			return false, err.Error()
		}
		for _, group := range l.Declaration.NodeGroups {
			for _, node := range Nodes(group, group.MinNodes+1, group.MaxNodes) {
				// NOT_RESPONDING remains of a ping that a removed node did not answer. Slurm can use the node nevertheless.
				rest := strings.TrimSuffix(nodes[node].State, "+NOT_RESPONDING")
				if _, there := l.Server(node); rest != "IDLE+CLOUD+POWERED_DOWN" || there {
					return false, fmt.Sprintf("%s is %s, has an instance: %v", node, nodes[node].State, there)
				}
			}
		}
		return true, ""
	})
	l.AwaitNothingWaits(t)
}

// AwaitIdle waits until a node is IDLE without a reason of ours. Slurm 24.11 keeps its own reasons, for example of a
// reboot.
func (l *Lab) AwaitIdle(t *testing.T, node string) {
	t.Helper()
	l.Eventually(t, UpdatePatience, func() (bool, string) {
		nodes, err := l.Nodes()
		is := nodes[node]
		return is.State == "IDLE" && !strings.HasPrefix(is.Reason, reconfigure.ReasonPrefix),
			fmt.Sprintf("%s is %s, %q (%v)", node, is.State, is.Reason, err)
	})
}

// AwaitState waits for a node's state in Slurm. On a busy computer a node may be NOT_RESPONDING until Slurm's next
// ping.
func (l *Lab) AwaitState(t *testing.T, node, want string) {
	t.Helper()
	l.Eventually(t, UpdatePatience, func() (bool, string) {
		state, err := l.NodeState(node)
		return state == want, fmt.Sprintf("%s is %s, not %s (%v)", node, state, want, err)
	})
}

// AwaitNothingWaits waits until every request has its outcome, and no worker has the lease, unless it is a service.
func (l *Lab) AwaitNothingWaits(t *testing.T) {
	t.Helper()
	log := l.Journal(t)
	l.Eventually(t, UpdatePatience, func() (bool, string) {
		pending, err := log.Pending(t.Context())
		holder := log.Holder(t.Context())
		return err == nil && len(pending) == 0 && (holder == "" || l.Declaration.Reconfigure["worker"] == "systemd"),
			fmt.Sprintf("pending %+v (%v), lease of %q", pending, err, holder)
	})
}

// AwaitRenewed waits until a node has booted again and Slurm uses it, and returns its new identity.
func (l *Lab) AwaitRenewed(t *testing.T, node string, before Identity) Identity {
	t.Helper()
	l.Eventually(t, UpdatePatience, func() (bool, string) {
		boot, err := l.Command(node, "stat", "-c", "%Y", "/proc/1").Output()
		return err == nil && strings.TrimSpace(string(boot)) != before.Boot,
			fmt.Sprintf("%s was not booted again (%v)", node, err)
	})
	l.AwaitIdle(t, node)
	l.AwaitNothingWaits(t)
	return l.Identities(t, node)[node]
}
