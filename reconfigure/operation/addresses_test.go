package operation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A node that comes back to its port is told to no other node, so all nodes must have its address before.
func TestThePlaybooksKnowTheAddressesOfKeptPorts(t *testing.T) {
	instance := func(node, address string) reconfigure.Instance {
		return reconfigure.Instance{Node: node, ID: "id-" + node, Address: address}
	}
	o := &Operator{
		cluster: reconfigure.Cluster{Groups: []reconfigure.NodeGroup{
			{Name: "kept", Prefix: "k", Width: 1, Max: 4, KeepPorts: true}, {Name: "loose", Prefix: "l", Width: 1, Max: 4},
		}},
		instances: map[string]reconfigure.Instance{}, addresses: map[string]string{},
	}
	half := reconfigure.Instance{Node: "k4", Tainted: true}
	o.found(map[string]reconfigure.Instance{"k1": instance("k1", "10.0.0.1"), "k2": instance("k2", "10.0.0.2"), "k4": half, "l1": instance("l1", "10.0.0.5")},
		map[string]string{"k2": "10.0.0.2", "k3": "10.0.0.3", "k4": "10.0.0.4", "k9": "10.0.0.9"})
	o.gone("k1")
	o.gone("l1")
	want := map[string]reconfigure.Instance{
		"k1": {Node: "k1", Address: "10.0.0.1"}, "k2": instance("k2", "10.0.0.2"), "k3": {Node: "k3", Address: "10.0.0.3"}, "k4": {Node: "k4", Address: "10.0.0.4"},
	}
	if diff := cmp.Diff(want, o.inventory(nil)); diff != "" {
		t.Error(diff)
	}
}
