package plan

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// margin is the longest time before ResumeTimeout at which a node is reported as failed.
const margin = 30 * time.Second

// Usable returns how long after Slurm's call a resumed node must be ready, or is reported as failed. At ResumeTimeout
// Slurm itself gives up the node, without a call of SuspendProgram and without the reason. The margin covers the
// report, which takes a busy slurmctld seconds, and the difference between the clocks.
func Usable(resumeTimeout time.Duration) time.Duration {
	return resumeTimeout - min(margin, resumeTimeout/10)
}

// ResumeTimeoutFor returns the shortest ResumeTimeout with this usable time.
func ResumeTimeoutFor(usable time.Duration) time.Duration {
	return min(usable+margin, usable*10/9)
}

// deadline returns the time until which a resumed node must be ready, or be reported as failed.
func deadline(submitted time.Time, resumeTimeout time.Duration) time.Time {
	return submitted.Add(Usable(resumeTimeout))
}

// budget sets the deadline of a change for a resume, and the number of its retries. Only Slurm's ResumeTimeout limits
// a change: if Slurm does not wait for the node, a person does, and decides after an error.
func (p *planner) budget(r reconfigure.Request, c *reconfigure.Change) {
	if r.Mode != reconfigure.Resume || p.cluster.Slurm.ResumeTimeout <= 0 || !p.seen.States[c.Node].PoweringUp() {
		return
	}
	c.Deadline = deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout)
	// a persistent node keeps its failed instance, so that an administrator can find the cause
	if !p.persistent.Contains(c.Node) {
		c.Retries = p.cluster.Settings.Retries
	}
}

// join adds a request to a change. The deadline is that of Slurm's newest call, since Slurm may have given the node up
// after the first one.
func (p *planner) join(r reconfigure.Request, c *reconfigure.Change) {
	c.Requests = append(c.Requests, r.ID)
	if r.Submitted.After(c.Since) {
		c.Since = r.Submitted
	}
	other := reconfigure.Change{Node: c.Node}
	p.budget(r, &other)
	if other.Deadline.After(c.Deadline) {
		c.Deadline = other.Deadline
	}
	c.Retries = min(c.Retries, other.Retries)
}

// over reports whether the deadline of a resume has passed.
func (p *planner) over(r reconfigure.Request) bool {
	return p.cluster.Slurm.ResumeTimeout > 0 &&
		!p.seen.Time.Before(deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout))
}

// tooLate reports whether Slurm waits for a node without a running instance, and the deadline has passed. A running
// instance is completed or removed in any case.
func (p *planner) tooLate(r reconfigure.Request, node string) bool {
	_, there := p.seen.Instances[node]
	return (!there || p.stopped(node)) && p.over(r) && p.seen.States[node].PoweringUp()
}
