package terraform

import (
	"context"
	"fmt"
	"maps"
	"slices"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Owned returns the ids of the nodes' instances and ports in the state of this shard, also of unfinished ones. The
// state is read as by Addresses.
func (d *Driver) Owned(ctx context.Context) (servers, ports []string, err error) {
	m, err := d.read()
	if err != nil {
		return nil, nil, err
	}
	state, err := d.listed(ctx, m.kinds)
	if err != nil {
		return nil, nil, err
	}
	sorted := func(block string) []string { return slices.Sorted(maps.Values(ids(state, m, block))) }
	return sorted(m.kinds.InstanceBlock()), sorted(m.kinds.PortBlock()), nil
}

// makePorts makes the missing kept ports. A separate run makes them, after the instances of a deploy, unless the plan
// says that there is room for all (KeptPorts): Terraform begins no instance before it has made all ports, so without
// quota for the ports it would make no instance. A port that cannot be made is not a failure of its node: the node's next
// instance gets one, or the next deploy makes it. The error is passed to watch.
func (d *Driver) makePorts(ctx context.Context, p reconfigure.Plan, watch func(node, message string)) error {
	ours := reconfigure.Plan{Shared: true, Desired: reconfigure.InShard(p.Desired, d.cfg.Workspace)}
	m, err := d.module(false) // the preview of the instances has checked the workspaces
	if err != nil || len(m.kept) == 0 || portOnly(ours.Desired).Empty() {
		return err
	}
	state, err := d.listed(ctx, m.kinds)
	if err != nil {
		return err
	}
	missing := missingPorts(state, ours.Desired, m)
	if missing.Empty() {
		return nil
	}
	args := arguments{parallelism: parallelism(missing.Len()), targets: keptTargets(missing, m)}
	preview, err := d.preview(ctx, ours, args, m)
	if err != nil {
		return fmt.Errorf("make the ports of %s: %w", missing, err)
	}
	failures, err := d.applyPreview(ctx, preview, watch, nil)
	if err != nil {
		return fmt.Errorf("make the ports of %s: %w", missing, err)
	}
	notePorts(failures, watch)
	return nil
}

// keptTargets returns the addresses of the kept resources of nodes.
func keptTargets(nodes nodeset.NodeSet, m module) (targets []string) {
	for node := range nodes.All() {
		targets = append(targets, m.keptOf(node)...)
	}
	return targets
}

func notePorts(failures reconfigure.Failures, watch func(node, message string)) {
	for node := range failures.Nodes().All() {
		watch(node, "its port was not made in advance: "+failures[node].Error())
	}
}

// portOnly returns the nodes of a map with a kept port and without an instance.
func portOnly(nodes map[string]reconfigure.Spec) nodeset.NodeSet {
	var names []string
	for node, spec := range nodes {
		if !spec.HasInstance() {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// missingPorts returns the nodes of portOnly whose kept resource is missing in the state or tainted.
func missingPorts(state []*tfjson.StateResource, nodes map[string]reconfigure.Spec, m module) nodeset.NodeSet {
	there := map[string]bool{}
	for _, r := range state {
		there[r.Address] = !r.Tainted
	}
	return portOnly(nodes).Where(func(node string) bool {
		for _, address := range m.keptOf(node) {
			if !there[address] {
				return true
			}
		}
		return false
	})
}

// keptAllows is the rule for resources of a node's address, which do not change when its instance is made or removed.
func (f fenced) keptAllows(node string, rc *tfjson.ResourceChange, effect reconfigure.Effect) bool {
	asked, _ := f.ours.Of(node)
	spec, wanted := f.ours.Desired[node]
	tainted := f.tainted[rc.Address]
	switch {
	case effect == reconfigure.EffectDelete && wanted && rc.DeposedKey == "":
		return false // the node keeps it
	case wanted && !spec.HasInstance() &&
		(effect == reconfigure.EffectCreate || effect == reconfigure.EffectReplace && tainted):
		return f.ours.Shared || asked.Action == reconfigure.Remove
	case asked.Action == reconfigure.Create && !f.present[node] && effect != reconfigure.EffectDelete:
		return true // no instance uses the port, which is from an earlier declaration, with another network for example
	}
	return nodeAllows(asked.Action, effect, tainted)
}
