package plan

import (
	"cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// suspend removes or stops the instances of cloud nodes that Slurm has given up. It also removes those of undeclared
// nodes, so that no instance is left over. Slurm sets POWERING_DOWN before it calls; a node that is still in use
// could get a job at any moment. Slurm calls only once, so the node is deferred while Slurm does not answer.
func (p *planner) suspend(r reconfigure.Request) {
	for node := range r.Open().All() {
		instance, there := p.seen.Instances[node]
		wanted := p.seen.Desired[node].HasInstance()
		state := p.seen.States[node]
		switch {
		case !p.declared.Contains(node) && !there && !wanted:
			p.reject(r, node, undeclared)
		case p.persistent.Contains(node):
			p.reject(r, node, "it is persistent")
		case !there && !wanted:
			// There is nothing to remove.
		case there && p.unknownJobs(instance) && p.deployed() && node != p.cluster.Control.Name:
			p.deferFor(r, node, reconfigure.SlurmUnreachable, unreachable)
		case there && p.endangered(instance) != "":
			p.reject(r, node, p.endangered(instance))
		case there && state.Registered():
			p.reject(r, node, "Slurm uses it; power it down with `scontrol update nodename="+node+" state=power_down`")
		default:
			p.rest(r, node)
		}
	}
}

// rest removes the instance of an idle node, or stops it unless it is too old. An instance that is already stopped is
// planned again: a worker may have died before the cloud stopped it, or while it was starting.
func (p *planner) rest(r reconfigure.Request, node string) {
	const reason = "Slurm suspends it"
	group, _ := p.cluster.GroupOf(node)
	spec := p.seen.Desired[node]
	old := p.seen.Aged(p.cluster, node)
	if whole, _ := p.whole(node); !whole || old || !p.cluster.KeepsStopped(node, p.desired) {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove, Reason: reason})
		return
	}
	spec.Power = cmp.Or(spec.Power, group.WhenIdle.Power()) // a shelved instance cannot be stopped
	p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Stop, Spec: spec, Reason: reason})
}
