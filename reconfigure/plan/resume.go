package plan

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// resume gives each node an instance that boots after the request: Slurm waits for a boot that is newer than its own call (slurm.conf(5), ResumeTimeout).
func (p *planner) resume(r reconfigure.Request) {
	_, deployed := p.seen.Instances[p.cluster.Control.Name]
	for node := range r.Open().All() {
		if !p.declared.Contains(node) {
			p.reject(r, node, "no node group declares it")
			continue
		}
		if !deployed {
			p.reject(r, node, "there is no control node yet: `reconfigure deploy` comes first")
			continue
		}
		whole, reason := p.whole(node)
		state := p.seen.States[node]
		switch {
		case whole && p.slurm && (state.Ready() || state.Running()):
			// Slurm names a node twice after a crash of slurmctld; there is nothing left to do.
		case p.unfinished(node) && p.slurm && (state.Ready() || state.Running()):
			p.adopt(r, node)
		case p.tooLate(r, node):
			p.reject(r, node, fmt.Sprintf("too late: Slurm gives it up %s after the request", p.cluster.Slurm.ResumeTimeout))
		case !whole:
			p.make(r, node, reason)
		case !p.slurm:
			p.reject(r, node, p.slurmsReason())
		default:
			p.refresh(r, node)
		}
	}
}

// unfinished reports whether Terraform was told of a node, and its state does not have the instance as finished.
func (p *planner) unfinished(node string) bool {
	instance, there := p.seen.Instances[node]
	return p.seen.Desired[node].HasInstance() && (!there || instance.Tainted)
}

// adopt has Terraform's state take the instance of a node that is in use: a worker, or a Terraform, was killed after the
// instance came up. A new instance would cost the node's jobs.
func (p *planner) adopt(r reconfigure.Request, node string) {
	p.change(r, reconfigure.Change{
		Node: node, Action: reconfigure.Adopt, Spec: p.seen.Desired[node],
		Reason: "Slurm uses it, and Terraform's state does not have its instance as finished",
	})
}

// refresh readies an instance that Slurm wants to power up although it is there: left over from an earlier failure, or told of twice. It is empty, so it may
// become what is declared now.
func (p *planner) refresh(r reconfigure.Request, node string) {
	spec, problem := p.spec(node)
	switch {
	case problem != nil:
		p.rejectFor(r, node, problem)
	case spec != p.seen.Desired[node]:
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Replace, Spec: spec, Reason: "its instance is not what is declared"})
	default:
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Reboot, Reason: "its instance was there before the request"})
	}
}
