package plan

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// resume gives each node an instance that boots after the request: Slurm waits for a boot after its call
// (slurm.conf(5), ResumeTimeout).
func (p *planner) resume(r reconfigure.Request) {
	_, deployed := p.seen.Instances[p.cluster.Control.Name]
	for node := range r.Open().All() {
		if !p.declared.Contains(node) {
			p.reject(r, node, undeclared)
			continue
		}
		if !deployed {
			p.reject(r, node, "there is no control node: run `reconfigure deploy` first")
			continue
		}
		whole, reason := p.whole(node)
		switch {
		case p.slurm && r.Suspended.Needless(node, p.seen.States[node]):
			p.giveUp(r, node)
		case whole && p.inUse(node):
			// After a crash slurmctld calls again for the same node; nothing needs to be done.
		case p.unfinished(node) && p.inUse(node):
			p.adopt(r, node)
		case p.tooLate(r, node):
			p.reject(r, node, fmt.Sprintf("too late: Slurm gives up the node %s after the request",
				p.cluster.Slurm.ResumeTimeout))
		case !whole:
			p.make(r, node, reason)
		case !p.slurm && !p.stopped(node):
			p.reject(r, node, p.slurmsReason())
		case p.silent(node):
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Configure, Reason: "its slurmd does not answer"})
		default:
			p.refresh(r, node)
		}
	}
}

// silent reports whether a persistent node is DOWN in Slurm since its slurmd does not answer. Slurm does not wait for
// a boot, so only slurmd is started. A node that this tool has set DOWN has failed, and is booted.
func (p *planner) silent(node string) bool {
	state := p.seen.States[node]
	return p.persistent.Contains(node) && !p.stopped(node) && !state.Ours() && !state.PoweringUp() &&
		state.Has(reconfigure.NodeDown|reconfigure.NodeNotResponding)
}

// giveUp rejects a node that was suspended after the request. Slurm is not told, since it no longer waits for the node.
// The suspend removes the parts that an earlier worker made.
func (p *planner) giveUp(r reconfigure.Request, node string) {
	p.reject(r, node, reconfigure.ErrUnwanted.Error())
	p.rejected[len(p.rejected)-1].Awaited = false
}

// unfinished reports whether the map of nodes has an instance for a node, but it is not finished in Terraform's
// state.
func (p *planner) unfinished(node string) bool {
	instance, there := p.seen.Instances[node]
	return p.seen.Desired[node].HasInstance() && (!there || instance.Tainted)
}

// inUse reports whether Slurm says that a node is ready or has a job.
func (p *planner) inUse(node string) bool {
	state := p.seen.States[node]
	return p.slurm && (state.Ready() || state.Running())
}

// adopt plans the import of a node's instance that is in use into Terraform's state: the worker or Terraform was
// killed after the instance became ready. A new instance would end the node's jobs.
func (p *planner) adopt(r reconfigure.Request, node string) {
	p.change(r, reconfigure.Change{
		Node: node, Action: reconfigure.Adopt, Spec: p.seen.Desired[node].Running(),
		Reason: "Slurm uses it, but its instance is not finished in Terraform's state",
	})
}

// start plans the start of a stopped instance, without other changes.
func (p *planner) start(r reconfigure.Request, node string) {
	p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Start, Spec: p.seen.Desired[node].Running(),
		Reason: "its instance is stopped"})
}

// refresh plans a new boot of an instance that already exists when Slurm powers up its node: the instance was
// stopped, or an earlier call failed or is repeated. The instance has no job, so it is replaced if it differs from
// the declaration. The boot of an instance that was made for the request is continued instead.
func (p *planner) refresh(r reconfigure.Request, node string) {
	spec, problem := p.spec(node)
	spec = p.asMade(node, spec)
	why := p.endangered(p.seen.Instances[node])
	switch {
	case problem != nil:
		p.rejectFor(r, node, problem)
	case spec != p.seen.Desired[node].Running() && why != "":
		p.reject(r, node, why)
	case spec != p.seen.Desired[node].Running():
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Replace, Spec: spec,
			Reason: "its instance differs from the declaration"})
	case p.stopped(node):
		p.start(r, node)
	default:
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Reboot,
			Reason: "its instance is older than the request"})
	}
}
