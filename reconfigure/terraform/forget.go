package terraform

import (
	"context"
	"fmt"
	"slices"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Forget removes nodes from the state and from the map of nodes. Nothing in the cloud changes. desired is the whole map
// without the nodes. It may be repeated, also after a kill. The state comes first: an entry in it without one in the
// map would be an instance that the next plan removes.
func (d *Driver) Forget(ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet) error {
	if err := d.forget(ctx, nodes); err != nil {
		return fmt.Errorf("forget %s: %w", nodes, err)
	}
	return d.keep(ctx, reconfigure.Plan{Desired: desired})
}

func (d *Driver) forget(ctx context.Context, nodes nodeset.NodeSet) error {
	m, err := d.module(false)
	if err != nil {
		return err
	}
	state, err := d.pull(ctx)
	if err != nil {
		return err
	}
	before, after := 0, 0
	for _, r := range state.resources {
		before += len(r.instances)
		r.instances = slices.DeleteFunc(r.instances, func(i fields) bool {
			node, known := m.owner(r.address(i["index_key"]), nodes.Contains)
			return known && nodes.Contains(node) && r.mode == string(tfjson.ManagedResourceMode)
		})
		after += len(r.instances)
	}
	if after == before {
		return nil
	}
	return d.push(ctx, state)
}
