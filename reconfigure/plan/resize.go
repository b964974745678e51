package plan

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// resize makes the declared persistent nodes, and removes the others that were persistent. A node below min_nodes is
// made if it is missing; a former cloud node keeps its instance and its jobs. A persistent node from min_nodes on is
// drained and removed; cloud nodes are left to power saving. If slurm.conf changes, all nodes get it.
func (p *planner) resize(r reconfigure.Request) {
	remains := p.remains(r)
	for node := range r.Open().All() {
		switch {
		case !p.deployed():
			p.reject(r, node, "there is no cluster: its control node has no instance")
		case !p.slurm && r.IsDeferred():
			p.waitsForSlurm(r, node)
		case !p.slurm:
			p.reject(r, node, p.slurmsReason())
		case p.cluster.Attached() && p.stale(node):
			p.reject(r, node, notOurs)
		case p.persistent.Contains(node) && r.Mode == reconfigure.Shrink:
			p.keep(r, node)
			p.reject(r, node, "it is below min_nodes of its group")
		case !p.persistent.Contains(node) && r.Mode == reconfigure.Enlarge:
			p.reject(r, node, "it is not below min_nodes of its group")
		case remains.Contains(node):
			p.await(r, node, reconfigure.PurposeShrink)
		case !remains.Empty() && p.stale(node):
			p.withhold(r, node, remains)
		case p.stale(node) && p.endsJobs() != "":
			p.reject(r, node, p.endsJobs())
		case p.persistent.Contains(node):
			p.grow(r, node)
		default:
			p.give(r, node)
		}
	}
}

// leaves reports whether this tool has drained a node to remove it, now or in an earlier request.
func leaves(s reconfigure.NodeState) bool {
	return s.Drained() && s.Reason == reconfigure.ReasonPrefix+" "+reconfigure.PurposeShrink
}

// stale reports whether a node differs in Slurm from its declaration as a persistent node, a cloud node, or no node.
func (p *planner) stale(node string) bool {
	state, known := p.seen.States[node]
	if known != p.declared.Contains(node) {
		return true
	}
	return known && state.Cloud() == p.persistent.Contains(node)
}

// remains returns the undeclared nodes that cannot be removed now: a slurm.conf without them would end their jobs.
func (p *planner) remains(r reconfigure.Request) nodeset.NodeSet {
	open := r.Open()
	return p.seen.Forgotten(p.cluster).Where(func(node string) bool {
		state, known := p.seen.States[node]
		return known && !(open.Contains(node) && !occupied(state))
	})
}

// occupied reports whether a job is on a node, waits for it, or may start there at any moment.
func occupied(s reconfigure.NodeState) bool {
	return s.GivenToJob() || s.Usable() || s.Rebooting()
}

// withhold defers a node until the other nodes of its request are removed. If those belong to other requests, it
// rejects the node.
func (p *planner) withhold(r reconfigure.Request, node string, remains nodeset.NodeSet) {
	const forget = ", which no node group declares any more: Slurm would forget them, and end their jobs"
	if strange := remains.Difference(r.Open()); !strange.Empty() || r.DrainTimeout <= 0 {
		p.reject(r, node, "there are instances of "+remains.String()+forget+". `reconfigure resize` removes them "+
			"when their jobs have ended")
		return
	}
	if r.Late(p.seen.Time) {
		p.reject(r, node, "there are still jobs on "+remains.String()+forget)
		return
	}
	p.deferFor(r, node, reconfigure.WaitsForJobs, "there are jobs on "+remains.String()+forget)
}

// grow makes a node persistent.
func (p *planner) grow(r reconfigure.Request, node string) {
	state := p.seen.States[node]
	whole, reason := p.whole(node)
	switch {
	case p.unfinished(node) && p.inUse(node):
		p.adopt(r, node)
	case !whole:
		p.make(r, node, reason)
	case p.stopped(node):
		p.refresh(r, node)
	case (state.PoweringDown() || state.PoweredDown()) && !state.Running():
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Reboot,
			Reason: "it becomes persistent, and Slurm has powered it down"})
	case state.PoweringUp(): // Slurm's call for it may have been refused, and slurmd of an older boot does not register
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Reboot,
			Reason: "it becomes persistent, and Slurm waits for a boot of it"})
	case p.stale(node): // a pending power down ends when the node is no longer a cloud node
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Configure, Reason: "it becomes persistent",
			Undrain: leaves(state) || state.Retires()})
	default:
		p.keep(r, node)
	}
	p.reread(r, node)
}

// keep undrains a node that was to be removed, or to be powered down for its age, and is declared persistent.
func (p *planner) keep(r reconfigure.Request, node string) {
	switch state := p.seen.States[node]; {
	case leaves(state):
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain,
			Reason: "it is declared persistent again"})
	case state.Retires():
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain, Reason: "it has become persistent"})
	}
}

// give removes the instance of a node that is no longer persistent, when no job is on it or waits for it to power up, and
// none can start. A node
// that was a cloud node before is left to Slurm, which powers it down when it is idle. As soon as Slurm has the new
// slurm.conf, it may also power down a node of this request, which ends the drain. Then give already plans what
// Slurm's request will ask for, so that the outcome includes it.
func (p *planner) give(r reconfigure.Request, node string) {
	state, known := p.seen.States[node]
	_, there := p.seen.Instances[node]
	_, wanted := p.seen.Desired[node] // the port of an undeclared node is removed too
	declared := p.declared.Contains(node)
	goes := !declared || known && !state.Cloud() || leaves(state)
	reason := "its group declares fewer persistent nodes"
	if !declared {
		reason = "no node group declares it any more"
	}
	switch {
	case !goes && there && state.Has(reconfigure.NodePoweringDown):
		p.rest(r, node)
	case !goes:
	case there && occupied(state), state.GivenToJob():
		p.await(r, node, reconfigure.PurposeShrink)
	case there || wanted || declared:
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove, Reason: reason, HandOver: declared,
			Note: endingDrain(state)})
	}
	p.reread(r, node)
}

// endingDrain returns a note about another's drain that ends with the instance, since power saving clears it.
func endingDrain(s reconfigure.NodeState) string {
	if !s.Drained() || s.Ours() {
		return ""
	}
	return "a drain that reconfigure has not set ends with its instance: " + s.OthersReason()
}

// reread gives all nodes slurm.conf if it changes for a node. The plan has one change for it, at the control node;
// its result is whether slurmctld loads the file.
func (p *planner) reread(r reconfigure.Request, node string) {
	if !p.stale(node) {
		return
	}
	p.everywhere = true
	control := p.cluster.Control.Name
	if c, changes := p.changes[control]; !changes || c.Requests[len(c.Requests)-1] != r.ID {
		p.change(r, reconfigure.Change{Node: control, Action: reconfigure.Configure,
			Reason: "slurm.conf changes for " + node})
	}
}
