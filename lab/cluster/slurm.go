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

// Node is a node in Slurm's listing.
type Node struct{ State, Reason string }

// Nodes returns all nodes by one call of scontrol.
func (l *Lab) Nodes() (map[string]Node, error) {
	out, err := l.Command(ControlNodeName, "scontrol", "show", "nodes", "--oneliner").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("scontrol show nodes: %w: %s", err, out)
	}
	nodes := map[string]Node{}
	for line := range strings.Lines(string(out)) {
		nodes[value(line, "NodeName")] = Node{State: value(line, "State"), Reason: value(line, "Reason")}
	}
	return nodes, nil
}

// field returns one field of the output of `scontrol show`.
func (l *Lab) field(kind, name, field string) (string, error) {
	out, err := l.Command(ControlNodeName, "scontrol", "show", kind, name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scontrol show %s %s: %w: %s", kind, name, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if found := value(line, field); found != "" {
			return found, nil
		}
	}
	return "", nil
}

// value returns the value of a field in a line of scontrol's output; "" if the line lacks it.
func value(line, field string) string {
	_, found, _ := strings.Cut(" "+strings.TrimSpace(line), " "+field+"=")
	if field == "Reason" {
		return found // a reason may contain blanks; with --oneliner, Comment may follow
	}
	found, _, _ = strings.Cut(found, " ")
	return found
}

// StateDir returns the folder of reconfigure's journal and logs.
func (l *Lab) StateDir() string { return filepath.Join(l.Site, "state") }
