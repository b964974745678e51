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

// budget says until when a change may take that is made for a resume, and whether it may be tried once more. It is bounded by Slurm's patience alone: where Slurm does
// not wait for the node, a person does, who sees the error and decides.
func (p *planner) budget(r reconfigure.Request, c *reconfigure.Change) {
	if r.Mode != reconfigure.Resume || p.cluster.Slurm.ResumeTimeout <= 0 || !p.seen.States[c.Node].PoweringUp() {
		return
	}
	tried, _ := r.Wait(c.Node)
	c.Deadline = deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout)
	c.Retry = tried.Tries < p.cluster.Settings.Retries && !p.persistent.Contains(c.Node) // which keep their instance, to be looked at
}

// join has a change be for another request too. The newest call of Slurm's counts: it may have given the node up since the first.
func (p *planner) join(r reconfigure.Request, c *reconfigure.Change) {
	c.Requests = append(c.Requests, r.ID)
	other := reconfigure.Change{Node: c.Node}
	p.budget(r, &other)
	if other.Deadline.After(c.Deadline) {
		c.Deadline = other.Deadline
	}
	c.Retry = c.Retry && other.Retry
}

// over tells that Slurm's time for what a request resumes is over.
func (p *planner) over(r reconfigure.Request) bool {
	return p.cluster.Slurm.ResumeTimeout > 0 && !p.seen.Time.Before(deadline(r.Submitted, p.cluster.Slurm.ResumeTimeout))
}

// tooLate tells that there is nothing of a node that Slurm waits for, and no time to make it. What there is of one must be carried to its end, and removed.
func (p *planner) tooLate(r reconfigure.Request, node string) bool {
	_, there := p.seen.Instances[node]
	_, again := r.Wait(node)
	return !there && p.over(r) && (again || p.seen.States[node].PoweringUp())
}

// givenUp tells that Slurm does not wait any more for a node that was to be tried once more. One that is DOWN by our own word is ours to give back.
func (p *planner) givenUp(node string) bool {
	state := p.seen.States[node]
	return !state.PoweringUp() && !(state.Down() && state.Ours())
}
