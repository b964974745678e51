package plan_test

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// If slurmd of a persistent node does not answer, for example after a restart of the hypervisor, the plan only starts
// slurmd: Slurm waits for no boot of the node, and an administrator may be logged in.
func TestAResumeOfASilentPersistentNodeBootsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		node   string
		words  []string
		reason string
		made   reconfigure.Spec
		want   string
	}{
		"silent": {"p1", []string{"DOWN", "NOT_RESPONDING"}, "Not responding", reconfigure.Spec{}, "configure p1"},
		"silent, and drained since": {"p1", []string{"DOWN", "NOT_RESPONDING", "DRAIN"}, "memory errors",
			reconfigure.Spec{}, "configure p1"},
		"set DOWN":       {"p1", []string{"DOWN"}, "memory errors", reconfigure.Spec{}, "reboot p1"},
		"failed":         {"p1", []string{"DOWN", "NOT_RESPONDING"}, "reconfigure: no-ssh", reconfigure.Spec{}, "reboot p1"},
		"stopped":        {"p1", []string{"DOWN", "NOT_RESPONDING"}, "", reconfigure.Spec{Power: reconfigure.PowerOff}, "start p1"},
		"powers up":      {"p1", []string{"DOWN", "NOT_RESPONDING", "POWERING_UP"}, "", reconfigure.Spec{}, "reboot p1"},
		"in use":         {"p1", []string{"IDLE"}, "", reconfigure.Spec{}, "nothing"},
		"a cloud node":   {"p2", []string{"DOWN", "CLOUD", "NOT_RESPONDING"}, "", reconfigure.Spec{}, "reboot p2"},
		"slurmd is slow": {"p1", []string{"IDLE", "NOT_RESPONDING"}, "", reconfigure.Spec{}, "reboot p1"},
	} {
		cluster := reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Min: 1, Max: 2}},
		}
		state := reconfigure.SlurmNode(tc.node, tc.words...)
		state.Reason = tc.reason
		made := reconfigure.Spec{Group: "group", ImageID: "i1", FlavorID: "f", NetworkID: "n", Power: tc.made.Power}
		now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
		seen := snapshot.Snapshot{
			Time:   now,
			States: map[string]reconfigure.NodeState{tc.node: state},
			Instances: map[string]reconfigure.Instance{
				"ctl": {Node: "ctl", ID: "c"}, tc.node: {Node: tc.node, ID: "1", Made: made},
			},
			Desired: map[string]reconfigure.Spec{tc.node: made},
			Sources: map[reconfigure.Source]reconfigure.Resolved{
				source("v1"): {ImageID: "i1", FlavorID: "f", NetworkID: "n"},
			},
		}
		r := reconfigure.Request{ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of(tc.node), Submitted: now}
		if p := plan.Compute(cluster, seen, []reconfigure.Request{r}); p.String() != tc.want || len(p.Rejected) > 0 {
			t.Errorf("%s: planned %s, rejected %v, want %s", name, p, p.Rejected, tc.want)
		}
	}
}
