package plan

import (
	"errors"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// check plans the health checks of idle nodes. A node with a job is rejected: the check would disturb the job. If an
// earlier worker has drained the node for the check, the drain ends with the rejection.
func (p *planner) check(r reconfigure.Request) {
	for node := range r.Open().All() {
		group, declared := p.cluster.GroupOf(node)
		state := p.seen.States[node]
		whole, lacks := p.whole(node)
		switch {
		case !declared:
			p.notChecked(r, node, errors.New(undeclared))
		case !p.slurm && r.Touched:
			p.waitsForSlurm(r, node)
		case !p.slurm:
			p.notChecked(r, node, errors.New(p.slurmsReason()))
		case len(group.HealthChecks) == 0:
			p.notChecked(r, node, errors.New("its group declares no health_check"))
		case !whole:
			p.notChecked(r, node, errors.New(lacks))
		case p.stopped(node):
			p.notChecked(r, node, errors.New("its instance is stopped, and is checked when it starts"))
		case state.Running():
			p.notChecked(r, node, reconfigure.Classify(reconfigure.ClassBusy, errors.New("a job runs on it")))
		case !state.Ready():
			p.notChecked(r, node, errors.New("Slurm does not have it as up: "+state.String()))
		default:
			p.change(r, reconfigure.Change{
				Node: node, Action: reconfigure.CheckHealth, Spec: p.seen.Desired[node], Reason: reconfigure.PurposeHealth,
			})
		}
	}
}

// notChecked rejects a node, and ends the drain that an earlier worker has left for the check.
func (p *planner) notChecked(r reconfigure.Request, node string, why error) {
	state := p.seen.States[node]
	if state.Drained() && state.Reason == reconfigure.ReasonPrefix+" "+reconfigure.PurposeHealth {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain, Reason: "it is not checked"})
	}
	p.rejectFor(r, node, why)
}
