package plan_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Other requests may have changed the finished nodes since.
func TestADeferredSuspendDoesNotPlanItsFinishedNodes(t *testing.T) {
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Max: 2}},
	}
	gone := reconfigure.NodeState{Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown}
	seen := snapshot.Snapshot{
		States:    map[string]reconfigure.NodeState{"p1": gone, "p2": gone},
		Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl"}, "p1": {Node: "p1"}, "p2": {Node: "p2"}},
	}
	r := reconfigure.Request{ID: 1, Mode: reconfigure.Suspend, Nodes: nodeset.Of("p1", "p2"),
		Verdicts: []reconfigure.Verdict{{Node: "p1"}}}
	if p := plan.Compute(cluster, seen, []reconfigure.Request{r}); p.String() != "destroy p2" || len(p.Rejected) > 0 {
		t.Errorf("planned %s, rejected %v", p, p.Rejected)
	}
}
