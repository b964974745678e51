package plan

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// boot is the newest request that names a node. Slurm waits for a boot that is newer than its last call.
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

// takeUp returns the change with the phase at which the boot of the node's instance goes on, if it was booted for the
// newest request already, and the worker that was to see to it has ended. Another boot would cost the node its time, and
// on most hypervisors the console log that shows its host key.
func (p *planner) takeUp(c reconfigure.Change) reconfigure.Change {
	at, booted := p.booted(c.Node)
	if !booted {
		return c
	}
	c.At = at
	if c.Action == reconfigure.Reboot {
		c.Action, c.Spec = reconfigure.Boot, p.seen.Desired[c.Node].Running()
		c.Reason = "it was booted for the request, and the worker ended before it was ready"
	}
	return c
}

// booted reports whether an operation for the newest request has booted the instance of a node, and the phase that it
// had begun after that. Only the order of what the journal has counts, since clocks differ. If the operation had begun
// with Terraform, it has made, rebuilt or started the instance of which the journal has no life yet: it records a life
// when it sees such an instance. Should that be wrong, Slurm does not accept the boot, and the operation reboots the
// instance after all.
func (p *planner) booted(node string) (at reconfigure.Phase, ok bool) {
	switch at = p.seen.Reached[p.boots[node].request][node]; at {
	case reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify:
		return at, true
	case reconfigure.PhaseApply:
		return reconfigure.PhaseBoot, !p.lives(node)
	}
	return "", false
}

// unreached reports whether the instance of a node has failed before it ever answered by SSH. Another boot may not show
// its host key, so it is made anew; nothing of ours is on its disk. A machine that exists is not made anew.
func (p *planner) unreached(node string) bool {
	life, state := p.seen.Lives[node], p.seen.States[node]
	return p.lives(node) && life.Failed != "" && life.Booted.IsZero() && life.Registered.IsZero() && !state.Ready() &&
		!p.cluster.Existing
}

// lives reports whether the journal has a life of the node's instance with the disk that it has now.
func (p *planner) lives(node string) bool {
	life, i := p.seen.Lives[node], p.seen.Instances[node]
	return life.Instance == i.ID && (life.ImageID == i.Made.ImageID || life.ImageID == "" || i.Made.ImageID == "")
}
