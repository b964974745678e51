package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// portsCluster has a group that keeps its ports and one that does not, in states of two nodes.
func portsCluster() reconfigure.Cluster {
	return reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("c")},
		Groups: []reconfigure.NodeGroup{
			{Name: "kept", Prefix: "k", Width: 1, Source: source("v1"), Min: 1, Max: 3, KeepPorts: true},
			{Name: "loose", Prefix: "l", Width: 1, Source: source("v1"), Max: 2},
		},
		Settings: reconfigure.Settings{NodesPerState: 2},
	}
}

func made(group, image, shard string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, ImageID: image, FlavorID: "f", NetworkID: "n", Shard: shard}
}

func port(group, shard string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, NetworkID: "n", Shard: shard}
}

// idle returns the state of a cloud node without a job, with a flag of power saving.
func idle(node string, power reconfigure.NodeFlags) reconfigure.NodeState {
	return reconfigure.NodeState{Node: node, Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | power}
}

// seenWith returns a snapshot in which all instances are as in the map of nodes.
func seenWith(c reconfigure.Cluster, desired map[string]reconfigure.Spec) snapshot.Snapshot {
	seen := snapshot.Snapshot{
		Desired: desired, Missing: map[snapshot.System]string{}, States: map[string]reconfigure.NodeState{},
		Instances: map[string]reconfigure.Instance{},
		Sources:   map[reconfigure.Source]reconfigure.Resolved{},
	}
	for _, from := range []reconfigure.Source{source("c"), source("v1")} {
		seen.Sources[from] = reconfigure.Resolved{ImageID: from.Image, FlavorID: from.Flavor, NetworkID: from.Network}
	}
	for node, spec := range desired {
		if spec.HasInstance() {
			seen.Instances[node] = reconfigure.Instance{Node: node, ID: "id-" + node, Made: spec}
		}
	}
	for node := range c.Nodes().All() {
		seen.States[node] = idle(node, reconfigure.NodePoweredDown)
	}
	return seen
}

func planned(c reconfigure.Cluster, seen snapshot.Snapshot, mode reconfigure.Mode, nodes ...string) reconfigure.Plan {
	return plan.Compute(c, seen, []reconfigure.Request{{ID: 1, Mode: mode, Nodes: nodeset.Of(nodes...)}})
}

func wantPlan(t *testing.T, got reconfigure.Plan, want string, desired map[string]reconfigure.Spec) {
	t.Helper()
	if got.String() != want {
		t.Errorf("%s, want %s; rejected %+v", got, want, got.Rejected)
	}
	if diff := cmp.Diff(desired, got.Desired); diff != "" {
		t.Errorf("the map of nodes (-want +got):\n%s", diff)
	}
}

func TestDeployMakesEntriesForThePortsThatAreKept(t *testing.T) {
	c := portsCluster()
	none := seenWith(c, map[string]reconfigure.Spec{})
	wantPlan(t, planned(c, none, reconfigure.Deploy), "create ctl,k1", map[string]reconfigure.Spec{
		"ctl": made(reconfigure.ControlGroup, "c", ""), "k1": made("kept", "v1", "kept-0"),
		"k2": port("kept", "kept-0"),
		"k3": port("kept", "kept-1"),
	})
	needed := plan.Sources(c, nil, []reconfigure.Request{{Mode: reconfigure.Deploy}})
	if len(needed) != 2 {
		t.Errorf("sources: %v", needed)
	}
	c.Groups[0].Min = 0 // no instance asks for the group's network then
	if needed := plan.Sources(c, nil, []reconfigure.Request{{Mode: reconfigure.Deploy}}); len(needed) != 2 {
		t.Errorf("sources without a persistent node: %v", needed)
	}
}

func TestANodeStaysInItsShard(t *testing.T) {
	c := portsCluster()
	desired := map[string]reconfigure.Spec{
		"ctl": made(reconfigure.ControlGroup, "c", ""), "k1": made("kept", "v1", ""), "k2": port("kept", ""),
		"k3": port("kept", "kept-7"), "l1": made("loose", "v0", ""),
	}
	seen := seenWith(c, desired)
	for _, node := range []string{"k2", "k3", "l1", "l2"} {
		seen.States[node] = idle(node, reconfigure.NodePoweringUp)
	}
	got := planned(c, seen, reconfigure.Resume, "k2", "k3", "l1", "l2")
	wantPlan(t, got, "create k[2-3],l2, replace l1", map[string]reconfigure.Spec{
		"ctl": desired["ctl"], "k1": desired["k1"], "k2": made("kept", "v1", ""), "k3": made("kept", "v1", "kept-7"),
		"l1": made("loose", "v1", ""), "l2": made("loose", "v1", "loose-0"),
	})
}

func TestANewInstanceGetsTheKeptPort(t *testing.T) {
	c := portsCluster()
	desired := map[string]reconfigure.Spec{
		"ctl": made(reconfigure.ControlGroup, "c", ""), "k1": made("kept", "v1", ""),
		"k2": made("kept", "v1", "kept-0"),
		"l1": made("loose", "v1", "loose-0"),
	}
	seen := seenWith(c, desired)
	for _, node := range []string{"k2", "l1"} {
		seen.States[node] = idle(node, reconfigure.NodePoweringDown)
	}
	gone := planned(c, seen, reconfigure.Suspend, "k2", "l1")
	wantPlan(t, gone, "destroy k2,l1", map[string]reconfigure.Spec{
		"ctl": desired["ctl"], "k1": desired["k1"], "k2": port("kept", "kept-0"),
	})
	seen = seenWith(c, gone.Desired)
	if again := planned(c, seen, reconfigure.Suspend, "k2"); len(again.Changes)+len(again.Rejected) > 0 {
		t.Errorf("a node with only a kept port is suspended: %s, %v", again, again.Rejected)
	}
	wantPlan(t, planned(c, seen, reconfigure.Resume, "k2"), "create k2", map[string]reconfigure.Spec{
		"ctl": desired["ctl"], "k1": desired["k1"], "k2": made("kept", "v1", "kept-0"),
	})
	// It still has its instance: the removal was interrupted.
	seen.Instances["k2"] = reconfigure.Instance{Node: "k2", ID: "id-k2"}
	seen.States["k2"] = idle("k2", reconfigure.NodePoweringUp)
	if got := planned(c, seen, reconfigure.Resume, "k2"); got.String() != "replace k2" {
		t.Errorf("after an interrupted removal: %s", got)
	}
}

func TestPortsAreRemovedWithTheirDeclarationAndWithTheCluster(t *testing.T) {
	c := portsCluster()
	desired := map[string]reconfigure.Spec{
		"ctl": made(reconfigure.ControlGroup, "c", ""), "k1": made("kept", "v1", ""), "k2": port("kept", ""),
		"k3": port("kept", ""), "k4": port("kept", ""), "l1": port("loose", ""),
	}
	seen := seenWith(c, desired)
	wantPlan(t, planned(c, seen, reconfigure.Deploy), "configure ctl,k1, destroy k4,l1", map[string]reconfigure.Spec{
		"ctl": desired["ctl"], "k1": desired["k1"], "k2": desired["k2"], "k3": desired["k3"],
	})
	wantPlan(t, planned(c, seen, reconfigure.Destroy), "destroy ctl,k[1-4],l1", map[string]reconfigure.Spec{})
	got := planned(c, seen, reconfigure.Resize, "k4")
	if got.Nodes(reconfigure.Remove).String() != "k4" {
		t.Errorf("resize: %s", got)
	} else if _, left := got.Desired["k4"]; left {
		t.Error("a resize leaves the port of a node that is not declared")
	}
}
