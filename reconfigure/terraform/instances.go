package terraform

import (
	"context"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// State returns this shard's part of the stored map of nodes, which is empty before the first apply, and the
// instances in Terraform's state. A node with only a part of an instance, such as a port, has a tainted instance
// without an id. The state is read without a lock, without the cloud and without a provider. State may be retried,
// and called while another method runs.
func (d *Driver) State(ctx context.Context) (reconfigure.State, error) {
	desired, known, err := d.nodes().Read(ctx)
	if err != nil {
		return reconfigure.State{}, err
	}
	state, err := d.StateOf(ctx, desired, known)
	if err == nil {
		state.Desired = reconfigure.InShard(desired, d.cfg.Workspace)
	}
	return state, err
}

// StateOf is State without Desired, for a map of nodes that was read already, see NodeMap.Read.
func (d *Driver) StateOf(
	ctx context.Context, desired map[string]reconfigure.Spec, known bool,
) (reconfigure.State, error) {
	m, err := d.read()
	if err != nil {
		return reconfigure.State{}, err
	}
	listed, err := d.listed(ctx, m.kinds)
	if err != nil {
		return reconfigure.State{}, err
	}
	found := instances(listed, m, desired, d.cfg.Workspace)
	if !known && len(found) > 0 {
		// A plan from an empty map would remove all of them.
		return reconfigure.State{}, &unknownError{len(found), d.nodes().path()}
	}
	return reconfigure.State{Instances: found, Ports: ids(listed, m, m.kinds.PortBlock())}, nil
}

// ids returns the ids of the resources of a block in a state, by node.
func ids(state []*tfjson.StateResource, m module, block string) map[string]string {
	found := map[string]string{}
	for _, r := range state {
		node, _ := m.owner(r.Address, func(string) bool { return false })
		if id := text(r.AttributeValues["id"]); id != "" && node != "" && r.Address == instance(block, node) {
			found[node] = id
		}
	}
	return found
}

// Instances returns State.Instances.
func (d *Driver) Instances(ctx context.Context) (map[string]reconfigure.Instance, error) {
	state, err := d.State(ctx)
	return state.Instances, err
}

// resources returns all managed resources of a state, also those of modules.
func resources(state *tfjson.State) []*tfjson.StateResource {
	if state == nil || state.Values == nil {
		return nil
	}
	var all []*tfjson.StateResource
	modules := []*tfjson.StateModule{state.Values.RootModule}
	for len(modules) > 0 {
		m := modules[0]
		modules = modules[1:]
		if m == nil {
			continue
		}
		for _, r := range m.Resources {
			if r != nil && r.Mode == tfjson.ManagedResourceMode {
				all = append(all, r)
			}
		}
		modules = append(modules, m.ChildModules...)
	}
	return all
}

// instances returns the instances in a shard's state, by node. A kept port is not a part of an instance.
func instances(state []*tfjson.StateResource, m module, desired map[string]reconfigure.Spec,
	shard string) map[string]reconfigure.Instance {
	isNode := func(name string) bool { _, ok := desired[name]; return ok }
	found := map[string]reconfigure.Instance{}
	for _, r := range state {
		node, known := m.owner(r.Address, isNode)
		spec, wanted := desired[node]
		if !known || node == "" || wanted && !spec.HasInstance() && m.keeps(r.Address) {
			continue
		}
		if r.Address == instance(m.kinds.InstanceBlock(), node) {
			made := m.kinds.Read(r.AttributeValues)
			made.Shard = shard
			found[node] = reconfigure.Instance{Node: node, ID: text(r.AttributeValues["id"]),
				Address: made.Address, Tainted: r.Tainted, Made: made.Spec}
		} else if _, ok := found[node]; !ok {
			found[node] = reconfigure.Instance{Node: node, Tainted: true, Made: reconfigure.Spec{Shard: shard}}
		}
	}
	return found
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
