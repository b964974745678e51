package plan

import "github.com/eiffel-hpc/eiffel/reconfigure"

// suspend removes the instances of cloud nodes that Slurm has given up, also of those that are declared no more: they would leak. Slurm sets POWERING_DOWN before it
// calls; a node that it still has in use could get a job at any moment. It calls once, and may fall silent then: what it has asked for waits until it answers.
func (p *planner) suspend(r reconfigure.Request) {
	for node := range r.Open().All() {
		instance, there := p.seen.Instances[node]
		wanted := p.seen.Desired[node].HasInstance()
		state := p.seen.States[node]
		switch {
		case !p.declared.Contains(node) && !there && !wanted:
			p.reject(r, node, "no node group declares it")
		case p.persistent.Contains(node):
			p.reject(r, node, "it is persistent")
		case !there && !wanted:
			// Absent is what was asked for.
		case there && p.unknownJobs(instance) && p.deployed() && node != p.cluster.Control.Name:
			p.deferFor(r, node, reconfigure.SlurmUnreachable, unreachable)
		case there && p.endangered(instance) != "":
			p.reject(r, node, p.endangered(instance))
		case there && state.Registered():
			p.reject(r, node, "Slurm has it in use; `scontrol update nodename="+node+" state=power_down` has Slurm give it up first")
		default:
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove, Reason: "Slurm suspends it"})
		}
	}
}
