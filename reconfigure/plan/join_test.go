package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Slurm waits for a boot that is newer than its last call. So if it has called twice for a node, an instance that is
// older than the second call does not suffice.
func TestANodeOfTwoResumesNeedsABootAfterTheNewer(t *testing.T) {
	first := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	second := first.Add(3 * time.Minute)
	src := reconfigure.Source{Image: "v1", Flavor: "f", Network: "n"}
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: src},
		Groups:  []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Source: src, Max: 2}},
		Slurm:   reconfigure.Timing{ResumeTimeout: 10 * time.Minute},
	}
	seen := snapshot.Snapshot{
		Time:      second,
		Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "c"}},
		States:    map[string]reconfigure.NodeState{"n1": reconfigure.SlurmNode("n1", "IDLE", "CLOUD", "POWERING_UP")},
		Sources:   map[reconfigure.Source]reconfigure.Resolved{src: {ImageID: "v1", FlavorID: "f", NetworkID: "n"}},
	}
	requests := []reconfigure.Request{
		{ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of("n1"), Submitted: first},
		{ID: 2, Mode: reconfigure.Resume, Nodes: nodeset.Of("n1"), Submitted: second},
	}
	for range 2 {
		c, ok := plan.Compute(cluster, seen, requests).Of("n1")
		if !ok || !c.Since.Equal(second) || len(c.Requests) != 2 {
			t.Errorf("%+v", c)
		}
		if end := c.Deadline; !end.After(first.Add(10*time.Minute)) || end.After(second.Add(10*time.Minute)) {
			t.Errorf("the deadline is %s", end)
		}
		slices.Reverse(requests) // the clocks of two control hosts differ
	}
}
