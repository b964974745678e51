package plan_test

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// A group that stops idle nodes does not keep an instance that is too old.
func TestASuspendRemovesWhatIsTooOldToBeStopped(t *testing.T) {
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
		Groups: []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Max: 2,
			WhenIdle: reconfigure.IdleStop, MaxStopped: 2, MaxAge: time.Hour}},
	}
	down := reconfigure.SlurmNode("", "IDLE", "CLOUD", "POWERING_DOWN")
	now := time.Now()
	spec := reconfigure.Spec{Group: "group", ImageID: "v1", FlavorID: "f", NetworkID: "n"}
	instance := func(node, id string) reconfigure.Instance { return reconfigure.Instance{Node: node, ID: id} }
	seen := snapshot.Snapshot{
		Time:    now,
		States:  map[string]reconfigure.NodeState{"p1": down, "p2": down},
		Desired: map[string]reconfigure.Spec{"p1": spec, "p2": spec},
		Instances: map[string]reconfigure.Instance{
			"ctl": instance("ctl", "c"), "p1": instance("p1", "old"), "p2": instance("p2", "young"),
		},
		Servers: map[string][]reconfigure.Server{
			"p1": {{ID: "old", Created: now.Add(-2 * time.Hour)}}, "p2": {{ID: "young", Created: now}},
		},
	}
	r := reconfigure.Request{ID: 1, Mode: reconfigure.Suspend, Nodes: nodeset.Of("p1", "p2")}
	if p := plan.Compute(cluster, seen, []reconfigure.Request{r}); p.String() != "stop p2, destroy p1" {
		t.Errorf("planned %s", p)
	}
}

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

// Slurm powers down an idle node that a shrink has made a cloud node, which ends its drain, before the shrink removes
// it. Slurm's own request may come in the same plan.
func TestAShrinkRemovesWhatSlurmPowersDownMeanwhile(t *testing.T) {
	group := reconfigure.NodeGroup{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Min: 1, Max: 3}
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("v1")}, Groups: []reconfigure.NodeGroup{group},
	}
	instances := map[string]reconfigure.Instance{}
	for _, node := range []string{"ctl", "p1", "p2", "p3"} {
		instances[node] = reconfigure.Instance{Node: node, ID: node}
	}
	seen := snapshot.Snapshot{
		States: map[string]reconfigure.NodeState{
			"p1": reconfigure.SlurmNode("", "IDLE"), "p2": reconfigure.SlurmNode("", "IDLE", "CLOUD", "POWERING_DOWN"),
			"p3": reconfigure.SlurmNode("", "IDLE", "CLOUD"),
		},
		Instances: instances,
	}
	shrink := reconfigure.Request{ID: 1, Mode: reconfigure.Shrink, Nodes: nodeset.Of("p2", "p3")}
	suspend := reconfigure.Request{ID: 2, Mode: reconfigure.Suspend, Nodes: nodeset.Of("p2")}
	for _, requests := range [][]reconfigure.Request{{shrink}, {shrink, suspend}} {
		if p := plan.Compute(cluster, seen, requests); p.String() != "destroy p2" || len(p.Rejected) > 0 {
			t.Errorf("planned %s, rejected %v", p, p.Rejected)
		}
	}
}
