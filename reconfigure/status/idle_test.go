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
