package terraform

import (
	"context"
	"errors"
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
	return d.forget(ctx, desired, nodes, func(string, *stateResource) (bool, error) { return true, nil })
}

// ForgetInstances removes the instances of nodes, and not their ports, as Forget does. desired is the whole map, in
// which the nodes have no instance. If the state has a resource of a node beside them, such as a volume of the site, it
// returns an error, and nothing changes: that resource may need the instance.
func (d *Driver) ForgetInstances(
	ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet,
) error {
	kinds := d.cfg.Module
	return d.forget(ctx, desired, nodes, func(node string, r *stateResource) (bool, error) {
		switch r.kind {
		case kinds.Instance:
			return true, nil
		case kinds.Port:
			return false, nil
		}
		return false, fmt.Errorf("the state has %s of %s", r.block(), node)
	})
}

// forget removes the resources of nodes for which goes returns true.
func (d *Driver) forget(
	ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet,
	goes func(node string, r *stateResource) (bool, error),
) error {
	if err := d.forgetResources(ctx, nodes, goes); err != nil {
		return fmt.Errorf("forget %s: %w", nodes, err)
	}
	return d.keep(ctx, reconfigure.Plan{Desired: desired})
}

func (d *Driver) forgetResources(
	ctx context.Context, nodes nodeset.NodeSet, goes func(node string, r *stateResource) (bool, error),
) error {
	m, err := d.module(false)
	if err != nil {
		return err
	}
	state, err := d.pull(ctx)
	if err != nil {
		return err
	}
	before, after := 0, 0
	var stays error
	for _, r := range state.resources {
		before += len(r.instances)
		r.instances = slices.DeleteFunc(r.instances, func(i fields) bool {
			node, known := m.owner(r.address(i["index_key"]), nodes.Contains)
			if !known || !nodes.Contains(node) || r.mode != string(tfjson.ManagedResourceMode) {
				return false
			}
			gone, err := goes(node, r)
			stays = errors.Join(stays, err)
			return gone
		})
		after += len(r.instances)
	}
	if stays != nil || after == before {
		return stays
	}
	return d.push(ctx, state)
}
