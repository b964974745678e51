package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestAClusterWhoseControlNodeExists plans each mode. The control node is never made, replaced or removed, and
// slurm.conf is left to `reconfigure attach`. A job runs on a node of the site.
func TestAClusterWhoseControlNodeExists(t *testing.T) {
	source := reconfigure.Source{Image: "i", Flavor: "f", Network: "n"}
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "head", Existing: &reconfigure.ExistingControl{Host: "head"}},
		Groups:  []reconfigure.NodeGroup{{Name: "cloud", Prefix: "node", Width: 1, Min: 1, Max: 3, Source: source}},
	}
	made := reconfigure.Spec{Group: "cloud", ImageID: "i1", FlavorID: "f1", NetworkID: "n1"}
	seen := snapshot.Snapshot{
		Desired: map[string]reconfigure.Spec{"node2": made},
		Instances: map[string]reconfigure.Instance{
			"head":  {Node: "head", ID: reconfigure.ExistingID, Address: "192.0.2.1"},
			"node2": {Node: "node2", ID: "2", Address: "192.0.2.2", Made: made},
		},
		States: map[string]reconfigure.NodeState{
			"site1": {Flags: reconfigure.NodeAllocated, Busy: true},
			"node1": {Flags: reconfigure.NodeDown}, "node2": {Flags: reconfigure.NodeCloud | reconfigure.NodePoweringDown},
			"node3": {Flags: reconfigure.NodeCloud | reconfigure.NodePoweringUp},
		},
		Sources: map[reconfigure.Source]reconfigure.Resolved{source: {ImageID: "i1", FlavorID: "f1", NetworkID: "n1"}},
	}
	for _, tc := range []struct {
		mode     reconfigure.Mode
		nodes    nodeset.NodeSet
		want     map[string]reconfigure.Action
		rejected nodeset.NodeSet
	}{
		{reconfigure.Deploy, nodeset.NodeSet{}, map[string]reconfigure.Action{
			"head": reconfigure.Configure, "node1": reconfigure.Create}, nodeset.NodeSet{}},
		{reconfigure.Destroy, nodeset.NodeSet{}, map[string]reconfigure.Action{"node2": reconfigure.Remove},
			nodeset.NodeSet{}},
		{reconfigure.Resume, nodeset.Of("node3"), map[string]reconfigure.Action{"node3": reconfigure.Create},
			nodeset.NodeSet{}},
		{reconfigure.Suspend, nodeset.Of("node2"), map[string]reconfigure.Action{"node2": reconfigure.Remove},
			nodeset.NodeSet{}},
		{reconfigure.Enlarge, nodeset.Of("node1"), map[string]reconfigure.Action{"node1": reconfigure.Create},
			nodeset.NodeSet{}},
		{reconfigure.Enlarge, nodeset.Of("node2"), map[string]reconfigure.Action{}, nodeset.Of("node2")},
		{reconfigure.Shrink, nodeset.Of("node2"), map[string]reconfigure.Action{}, nodeset.Of("node2")},
		{reconfigure.Resize, nodeset.Of("node2"), map[string]reconfigure.Action{}, nodeset.Of("node2")},
		{reconfigure.MakeImage, nodeset.Of("node2"), map[string]reconfigure.Action{}, nodeset.Of("node2")},
	} {
		t.Run(string(tc.mode)+" "+tc.nodes.String(), func(t *testing.T) {
			p := plan.Compute(c, seen, []reconfigure.Request{{ID: 1, Mode: tc.mode, Nodes: tc.nodes}})
			got, rejected := map[string]reconfigure.Action{}, nodeset.NodeSet{}
			for _, change := range p.Changes {
				got[change.Node] = change.Action
			}
			for _, r := range p.Rejected {
				rejected = rejected.Union(nodeset.Of(r.Node))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || p.Everywhere || !rejected.Equal(tc.rejected) {
				t.Errorf("everywhere %v, rejected %+v, changes (-want +got):\n%s", p.Everywhere, p.Rejected, diff)
			}
		})
	}
}
