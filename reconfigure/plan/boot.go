package plan

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// boot is the newest request that names a node. Slurm waits for a boot after its last call.
type boot struct {
	request   reconfigure.RequestID
	submitted time.Time
}

// boots returns the boots of the nodes that requests name, and that have no verdict yet.
func boots(requests []reconfigure.Request) map[string]boot {
	all := map[string]boot{}
	for _, r := range requests {
		for node := range r.Open().All() {
			if !r.Submitted.Before(all[node].submitted) {
				all[node] = boot{r.ID, r.Submitted}
			}
		}
	}
	return all
}

// takeUp returns the change with the phase at which the boot of the node's instance continues, if the instance was
// already booted for the newest request and the worker that handled it has ended. A second boot would cost the node
// time and, on most hypervisors, the console log with its host key.
func (p *planner) takeUp(c reconfigure.Change) reconfigure.Change {
	at, booted := p.booted(c.Node)
	if !booted {
		return c
	}
	c.At = at
	if c.Action == reconfigure.Reboot {
		c.Action, c.Spec = reconfigure.Boot, p.seen.Desired[c.Node].Running()
		c.Reason = "it was booted for the request, but the worker ended before it was ready"
	}
	return c
}

// booted reports whether an operation for the newest request has booted a node's instance, and the phase that the
// operation began after that. Only the order of the journal's entries counts, since clocks differ. If the operation
// had begun Terraform and the journal has no life of the instance yet, the operation has made, rebuilt or started the
// instance: it records the life when it sees the instance. If that is wrong, Slurm does not accept the boot, and the
// operation reboots the instance. Only in that case is the phase PhaseApply.
func (p *planner) booted(node string) (at reconfigure.Phase, ok bool) {
	switch at = p.seen.Reached[p.boots[node].request][node]; at {
	case reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify:
		return at, true
	case reconfigure.PhaseApply:
		return at, !p.lives(node)
	}
	return "", false
}

// unreached reports whether the instance of a node failed before it ever answered by SSH. Another boot may not show
// its host key, so the instance is made anew; nothing was configured on its disk. An existing machine is not made
// anew.
func (p *planner) unreached(node string) bool {
	life, state := p.seen.Lives[node], p.seen.States[node]
	return p.lives(node) && life.Failed != "" && life.Booted.IsZero() && life.Registered.IsZero() && !state.Ready() &&
		!p.cluster.Existing
}

// lives reports whether the journal has a life of the node's instance with its current disk.
func (p *planner) lives(node string) bool {
	life, i := p.seen.Lives[node], p.seen.Instances[node]
	return life.Instance == i.ID && (life.ImageID == i.Made.ImageID || life.ImageID == "" || i.Made.ImageID == "")
}
