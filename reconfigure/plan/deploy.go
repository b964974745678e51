package plan

import (
	"maps"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// deploy makes the control node and the persistent nodes that are missing, and configures the others. It never
// replaces a finished instance, even an outdated one: that is the purpose of update.
func (p *planner) deploy(r reconfigure.Request) {
	wanted := p.persistent.Union(nodeset.Of(p.cluster.Control.Name))
	if strange := p.seen.Forgotten(p.cluster); !strange.Empty() {
		for node := range wanted.All() {
			p.reject(r, node, "there are instances of "+strange.String()+", which no node group declares any more: "+
				"Slurm would forget them, and end their jobs. "+
				"Declare them until Slurm has powered them down, or run `reconfigure resize`, which removes them when their "+
				"jobs have ended")
		}
		return
	}
	if why := p.endsJobs(); why != "" {
		for node := range wanted.All() {
			p.reject(r, node, why)
		}
		return
	}
	p.shared, p.everywhere = true, !p.cluster.Attached() // the site's slurm.conf is not ours
	for node := range wanted.All() {
		switch ok, reason := p.whole(node); {
		case node == p.cluster.Control.Name && p.cluster.Attached():
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Configure,
				Reason: "the site runs it: its files are read, and none is changed"})
		case p.stopped(node):
			p.refresh(r, node)
		case ok && p.seen.States[node].PoweringUp(): // slurmd of an older boot does not register
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Reboot, Reason: "Slurm waits for a boot of it"})
		case ok:
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Configure, Reason: "it has an instance",
				Undrain: p.seen.States[node].Retires()}) // it was a cloud node
		case node == p.cluster.Control.Name && p.seen.Instances[node].ID != "" && p.unfinished(node):
			// Terraform was interrupted while it made the instance. The instance must not be replaced, since it may
			// be in use by now.
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Adopt, Spec: p.seen.Desired[node].Running(),
				Reason: reason})
		case p.unfinished(node) && p.inUse(node):
			p.adopt(r, node)
		default:
			p.make(r, node, reason)
		}
	}
	p.keepPorts(r)
	others := nodeset.Collect(maps.Keys(p.seen.Instances)).Intersect(p.declared).Difference(wanted)
	for node := range others.All() {
		if ok, _ := p.whole(node); ok && p.seen.States[node].Ready() {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Configure, Reason: "it has an instance"})
		}
	}
}

// destroy removes all instances in Terraform's state, and the shared resources.
func (p *planner) destroy(r reconfigure.Request) {
	p.shared = true
	for _, known := range []nodeset.NodeSet{nodeset.Collect(maps.Keys(p.seen.Instances)),
		nodeset.Collect(maps.Keys(p.seen.Desired))} {
		for node := range known.All() {
			ours := node != p.cluster.Control.Name || !p.cluster.Attached()
			if p.changes[node] == nil && ours {
				p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove,
					Reason: "the cluster is destroyed", Force: true})
			}
		}
	}
}
