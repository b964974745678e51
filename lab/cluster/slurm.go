package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Queries of Slurm, on the control node.

// Submit submits a batch job as the user alice, and returns its id.
func (l *Lab) Submit(args ...string) (string, error) {
	submit := append([]string{"runuser", "-u", "alice", "--", "env", "-C", "/home/alice", "sbatch", "--parsable"},
		args...)
	out, err := l.Command(ControlNodeName, submit...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sbatch %v: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// JobField returns a field of `scontrol show job`.
func (l *Lab) JobField(job, field string) (string, error) { return l.field("job", job, field) }

// JobState returns a job's state: PENDING, CONFIGURING, RUNNING, COMPLETED, …
func (l *Lab) JobState(job string) (string, error) { return l.field("job", job, "JobState") }

// NodeState returns a node's base state and flags: IDLE+CLOUD+POWERED_DOWN, …
func (l *Lab) NodeState(node string) (string, error) { return l.field("node", node, "State") }

// NodeReason returns the reason of a node's state, with its author and time; "" if it is empty or blank.
func (l *Lab) NodeReason(node string) (string, error) {
	reason, err := l.field("node", node, "Reason")
	if strings.HasPrefix(strings.TrimSpace(reason), "[") {
		reason = ""
	}
	return reason, err
}

// field returns one field of the output of `scontrol show`.
func (l *Lab) field(kind, name, field string) (string, error) {
	out, err := l.Command(ControlNodeName, "scontrol", "show", kind, name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scontrol show %s %s: %w: %s", kind, name, err, out)
	}
	for line := range strings.Lines(string(out)) {
		// A reason may contain blanks; it is the last field of its line.
		if _, value, ok := strings.Cut(" "+strings.TrimSpace(line), " "+field+"="); ok {
			if field != "Reason" {
				value, _, _ = strings.Cut(value, " ")
			}
			return value, nil
		}
	}
	return "", nil
}

// StateDir returns the folder of reconfigure's journal and logs.
func (l *Lab) StateDir() string { return filepath.Join(l.Site, "state") }
