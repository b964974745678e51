package status

import (
	"bytes"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestStatusShowsAStoppedNode(t *testing.T) {
	source := reconfigure.Source{Image: "v1", Flavor: "f", Network: "n"}
	c := reconfigure.Cluster{
		Name: "eiffel", Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups: []reconfigure.NodeGroup{{
			Name: "standard", Prefix: "n", Width: 1, Source: source, Max: 2, WhenIdle: reconfigure.IdleStop, MaxStopped: 2,
		}},
	}
	seen := snapshot.Snapshot{
		Desired: map[string]reconfigure.Spec{
			"n1": {Group: "standard", ImageID: "v1", FlavorID: "f", NetworkID: "n", Power: reconfigure.PowerOff},
		},
		Instances: map[string]reconfigure.Instance{"n1": {Node: "n1", ID: "1"}},
		Servers: map[string][]reconfigure.Server{
			"n1": {{ID: "1", Node: "n1", Status: "SHUTOFF", ImageID: "v1"}},
		},
		States: map[string]reconfigure.NodeState{
			"n1": reconfigure.SlurmNode("n1", "IDLE", "CLOUD", "POWERED_DOWN"),
			"n2": reconfigure.SlurmNode("n2", "IDLE", "CLOUD", "POWERED_DOWN"),
		},
		Sources: map[reconfigure.Source]reconfigure.Resolved{source: {ImageID: "v1", FlavorID: "f", NetworkID: "n"}},
	}
	r := New(c, seen, Journal{}, reconcile.Look{})
	if n := r.Nodes[1]; !n.Stopped || n.Instance != "SHUTOFF" || len(n.Outdated) > 0 || r.Groups[0].Stopped != 1 {
		t.Errorf("%+v in %+v", n, r.Groups[0])
	}
	var said bytes.Buffer
	if err := r.Write(&said, Layout{Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "SHUTOFF") || !strings.Contains(said.String(), "STOPPED") {
		t.Errorf("%s", said.String())
	}
}

func TestStatusShowsLimits(t *testing.T) {
	c := reconfigure.Cluster{Name: "eiffel", Limits: []reconfigure.Limit{{Groups: []string{"a", "b"}, Max: 4}},
		Groups: []reconfigure.NodeGroup{{Name: "a", Prefix: "a", Width: 1, Max: 3},
			{Name: "b", Prefix: "b", Width: 1, Max: 3}, {Name: "c", Prefix: "c", Width: 1, Max: 3}}}
	spec := reconfigure.Spec{ImageID: "v1"}
	seen := snapshot.Snapshot{Instances: map[string]reconfigure.Instance{},
		Desired: map[string]reconfigure.Spec{"a1": spec, "b2": spec, "b3": {NetworkID: "a port"}, "c1": spec}}
	var said bytes.Buffer
	if err := New(c, seen, Journal{}, reconcile.Look{}).Write(&said, Layout{Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "\nLimit: 2 of 4 nodes of a, b.\n") {
		t.Errorf("%s", said.String())
	}
	seen.Missing = map[snapshot.System]string{snapshot.Terraform: "its state is locked"}
	if r := New(c, seen, Journal{}, reconcile.Look{}); len(r.Limits) > 0 {
		t.Errorf("%+v", r.Limits)
	}
}
