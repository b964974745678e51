package terraform

import (
	"context"
	"fmt"
	"net/netip"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// portBlock is the resource of the root module that is a node's port.
const portBlock = "openstack_networking_port_v2.node"

// Addresses is the fixed IPv4 address of each port in the state of this shard, by node: also of the kept ports of
// nodes without an instance. The state is read without a lock and the cloud is not asked. It may be retried, and
// called while another method is at work.
func (d *Driver) Addresses(ctx context.Context) (map[string]string, error) {
	m, err := readModule(d.cfg.Dir)
	if err != nil {
		return nil, err
	}
	state, err := d.listed(ctx)
	if err != nil {
		return nil, err
	}
	return portAddresses(state, m), nil
}

func portAddresses(state []*tfjson.StateResource, m module) map[string]string {
	found := map[string]string{}
	for _, r := range state {
		node, _ := m.owner(r.Address, func(string) bool { return false })
		if node == "" || r.Address != instance(portBlock, node) {
			continue
		}
		all, _ := r.AttributeValues["all_fixed_ips"].([]any)
		for _, one := range all {
			if ip, err := netip.ParseAddr(text(one)); err == nil && ip.Is4() && found[node] == "" {
				found[node] = ip.String()
			}
		}
	}
	return found
}

// listed is every managed resource of this shard's state; none where the workspace is not there yet.
func (d *Driver) listed(ctx context.Context) ([]*tfjson.StateResource, error) {
	state, err := d.pull(ctx)
	if err != nil {
		return nil, err
	}
	return state.list()
}

// makePorts makes the ports that are to be kept and that are not there. It comes after the instances of a deploy, in
// a run of its own: Terraform begins no instance before it has made all ports, so that a quota for ports would keep
// all of them from coming up. A port that cannot be made is no node's failure: the node's next instance gets one, or
// the next deploy makes it. Watch hears of it.
func (d *Driver) makePorts(ctx context.Context, p reconfigure.Plan, watch func(node, message string)) error {
	ours := reconfigure.Plan{Shared: true, Desired: reconfigure.InShard(p.Desired, d.cfg.Workspace)}
	m, err := d.module(false) // the preview of the instances has looked
	if err != nil || len(m.kept) == 0 || portOnly(ours.Desired).Empty() {
		return err
	}
	state, err := d.listed(ctx)
	if err != nil {
		return err
	}
	missing := missingPorts(state, ours.Desired, m)
	if missing.Empty() {
		return nil
	}
	args := arguments{parallelism: parallelism(missing.Len())}
	for node := range missing.All() {
		args.targets = append(args.targets, m.keptOf(node)...)
	}
	preview, err := d.preview(ctx, ours, args, m)
	if err != nil {
		return fmt.Errorf("make the ports of %s: %w", missing, err)
	}
	failures, err := d.applyPreview(ctx, preview, watch, nil)
	if err != nil {
		return fmt.Errorf("make the ports of %s: %w", missing, err)
	}
	for node := range failures.Nodes().All() {
		watch(node, "its port was not made ahead: "+failures[node].Error())
	}
	return nil
}

// portOnly is the nodes of a map that have a kept port and no instance.
func portOnly(nodes map[string]reconfigure.Spec) nodeset.NodeSet {
	var names []string
	for node, spec := range nodes {
		if !spec.HasInstance() {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// missingPorts is those of them of which a state does not have all that is kept, made to the end.
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

// keptAllows rules over what belongs to a node's address, of which an instance must be able to come and go without a
// change.
func (f fenced) keptAllows(node string, rc *tfjson.ResourceChange, effect reconfigure.Effect) bool {
	asked, _ := f.ours.Of(node)
	spec, wanted := f.ours.Desired[node]
	tainted := f.tainted[rc.Address]
	switch {
	case effect == reconfigure.EffectDelete && wanted && rc.DeposedKey == "":
		return false // the node is to keep it
	case wanted && !spec.HasInstance() &&
		(effect == reconfigure.EffectCreate || effect == reconfigure.EffectReplace && tainted):
		return f.ours.Shared || asked.Action == reconfigure.Remove
	case asked.Action == reconfigure.Create && !f.present[node] && effect != reconfigure.EffectDelete:
		return true // it was kept since an earlier declaration, in another network for instance, and nothing uses it
	}
	return nodeAllows(asked.Action, effect, tainted)
}
