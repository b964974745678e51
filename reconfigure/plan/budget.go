package plan

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// deadline is when a node that Slurm resumes must be ready, or have been given up: Slurm does so by itself at ResumeTimeout, and neither calls its SuspendProgram then
// nor knows what was wrong. The margin before that is for telling it, which a slurmctld that is busy takes seconds for, and for what our clocks differ in.
func deadline(submitted time.Time, resumeTimeout time.Duration) time.Time {
	const most = 30 * time.Second
	return submitted.Add(resumeTimeout - min(most, resumeTimeout/10))
}

// budget sets until when a change may take that is made for a resume, and how often it may be retried. Only Slurm's
// ResumeTimeout bounds it: where Slurm does not wait for the node, a person does, who sees the error and decides.
func (p *planner) budget(r reconfigure.Request, c *reconfigure.Change) {
	if r.Mode != reconfigure.Resume || p.cluster.Slurm.ResumeTimeout <= 0 || !p.seen.States[c.Node].PoweringUp() {
		return
	}
	c.Deadline = deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout)
	if !p.persistent.Contains(c.Node) { // a persistent node keeps its instance, for the administrator to look at
		c.Retries = p.cluster.Settings.Retries
	}
}

// join has a change be for another request too. The newest call of Slurm's counts: it may have given the node up since the first.
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

// over tells that Slurm's time for what a request resumes is over.
func (p *planner) over(r reconfigure.Request) bool {
	return p.cluster.Slurm.ResumeTimeout > 0 && !p.seen.Time.Before(deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout))
}

// tooLate reports whether nothing exists of a node that Slurm waits for, and no time is left to make it. What exists of a
// node is completed or removed in any case.
func (p *planner) tooLate(r reconfigure.Request, node string) bool {
	_, there := p.seen.Instances[node]
	return !there && p.over(r) && p.seen.States[node].PoweringUp()
}
