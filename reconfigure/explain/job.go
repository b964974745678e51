package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// ofJob tells the story of a job. Its wait is that of its newest run.
func (s *Story) ofJob(f Facts) {
	runs := usage.Jobs(f.usageFacts(f.Requests, func(r reconfigure.JobRun) bool { return r.ID == s.Job }))
	if len(runs) == 0 {
		s.State = "unknown"
		s.advise("`squeue -j %d -o '%%T %%r'` says whether it waits for resources or for another job; only jobs with nodes, "+
			"and ended ones, are recorded", s.Job)
		return
	}
	operations := f.operations()
	s.failures(operations)
	var steps, ends []Step
	for _, run := range runs {
		steps = append(steps, moments(run)...)
	}
	for _, r := range f.Requests {
		steps = append(steps, f.called(r)...)
		ends = append(ends, f.finished(r, nodesFor(r, s.Job))...)
	}
	s.Steps = inOrder(slices.Concat(steps, together(operations), ends))
	job := runs[len(runs)-1]
	s.State = job.State
	if job.User != "" {
		s.State += ", of " + text.OneLine(job.User)
	}
	if !job.Nodes.Empty() {
		s.State += ", on " + job.Nodes.String()
	}
	node, marks := f.slowest(job)
	s.Wait = f.parts(job, node, marks)
	if job.Started.IsZero() && job.Ended.IsZero() && job.State != usage.StateUnknown {
		s.awaitNodes(f, job, node, marks)
	}
}

// moments returns the steps of a run that Slurm reports.
func moments(j usage.Job) []Step {
	var steps []Step
	add := func(at time.Time, what string, result Result, why string) {
		if !at.IsZero() {
			steps = append(steps, Step{
				Begin: at, End: at, Source: Slurm, Nodes: j.Nodes, What: what, Result: result, Reason: text.OneLine(why),
			})
		}
	}
	add(j.Submitted, fmt.Sprintf("gets job %d", j.ID), "", "")
	add(j.Started, fmt.Sprintf("starts job %d", j.ID), "", "")
	add(j.Ended, fmt.Sprintf("ends job %d", j.ID), "", j.State)
	return steps
}

// marks are the times at which a node of a job passed each step; zero: not yet, or unknown.
type marks struct {
	planned, attempt, made, booted, configured, registered time.Time
	failed                                                 time.Time // the end of the last attempt, if it failed
}

// marksOf returns the marks of the last attempt, from the steps of a node in order.
func marksOf(steps []Step) (m marks) {
	for _, s := range steps {
		if s.phase == "" {
			continue
		}
		if m.planned.IsZero() {
			m.planned = s.Begin
		}
		m.failed = time.Time{}
		if s.Result == Failed {
			m.failed = s.End
		}
		switch s.phase {
		case reconfigure.PhaseApply:
			m = marks{planned: m.planned, attempt: s.Begin, failed: m.failed}
		case reconfigure.PhaseBoot:
			set(&m.made, s.Begin)
		case reconfigure.PhaseConfigure:
			set(&m.booted, s.Begin)
		case reconfigure.PhaseVerify:
			set(&m.configured, s.Begin)
			if s.Result == Done {
				set(&m.registered, s.End)
			}
		}
	}
	return m
}

func set(mark *time.Time, at time.Time) {
	if mark.IsZero() {
		*mark = at
	}
}

// passed returns how many steps the node has passed.
func (m marks) passed() int {
	passed := 0
	for i, at := range []time.Time{m.planned, m.attempt, m.made, m.booted, m.configured, m.registered} {
		if !at.IsZero() {
			passed = i + 1
		}
	}
	return passed
}

// slowest returns the node for which a job waits longest, with its marks: the one that is least far, or registered
// last. It is empty if no operation began for the job.
func (f Facts) slowest(j usage.Job) (slowest string, of marks) {
	own := map[reconfigure.RequestID]bool{}
	for _, id := range j.Requests {
		own[id] = true
	}
	var requests []reconfigure.Request
	for _, r := range f.Requests {
		if own[r.ID] {
			requests = append(requests, r)
		}
	}
	f.Requests = requests
	plans := f.requestsByPlan()
	for node, events := range f.eventsByNode() {
		if node == "" || !j.Nodes.Empty() && !j.Nodes.Contains(node) {
			continue
		}
		m := marksOf(f.nodeSteps(node, events, plans))
		later := m.passed() < of.passed() || m.passed() == of.passed() &&
			(m.registered.After(of.registered) || m.registered.Equal(of.registered) && node < slowest)
		if m.passed() > 0 && (slowest == "" || later) {
			slowest, of = node, m
		}
	}
	return slowest, of
}

// parts returns the parts of a job's wait.
func (f Facts) parts(j usage.Job, node string, m marks) []Part {
	end := j.Started
	if end.IsZero() {
		end = j.Ended
	}
	at := j.Submitted
	if at.IsZero() {
		at = j.Asked
	}
	if at.IsZero() {
		return nil
	}
	typical := f.typical(f.groupOf(node))
	ends := []struct {
		part usage.Part
		at   time.Time
	}{
		{usage.PartSlurm, j.Asked}, {usage.PartQueue, m.planned}, {usage.PartEarlier, m.attempt}, {usage.PartCloud, m.made},
		{usage.PartBoot, m.booted}, {usage.PartAnsible, m.configured}, {usage.PartRegister, m.registered},
		{usage.PartLaunch, j.Started},
	}
	lastKnown := -1
	for i, e := range ends {
		if !e.at.IsZero() {
			lastKnown = i
		}
	}
	var parts []Part
	for i, e := range ends {
		from, to := at, e.at
		open := to.IsZero()
		switch {
		case open && i < lastKnown:
			continue // this node had no such step, such as a reboot
		case open && i > lastKnown+1:
			return parts
		case open && !m.failed.IsZero() && i < len(ends)-1:
			to = later(from, m.failed)
		case open && !end.IsZero():
			to = end // the job ended in this part
		case !open && (to.Before(from) || !end.IsZero() && to.After(end)):
			to = later(from, end) // Slurm's times are whole seconds
		}
		p := Part{Part: e.part, Begin: from, End: to, Took: seconds(f.Now.Sub(from))}
		if !to.IsZero() {
			p.Took = seconds(max(to.Sub(from), 0))
			at = to
		}
		if i > 0 && i < len(ends)-1 {
			p.Node = node
		}
		t := typical[e.part]
		p.Median, p.P95 = seconds(t.Median), seconds(t.P95)
		if e.part != usage.PartEarlier || p.Took >= 1 {
			parts = append(parts, p)
		}
		if open && to.IsZero() {
			return parts
		}
		if open && to.Equal(m.failed) {
			turn := Part{Part: usage.PartTurn, Begin: to, End: end, Took: seconds(f.Now.Sub(to))}
			if !end.IsZero() {
				turn.End = later(to, end)
				turn.Took = seconds(turn.End.Sub(to))
			}
			return append(parts, turn)
		}
		if open {
			return parts
		}
	}
	return parts
}

// awaitNodes says what a job that has not begun waits for.
func (s *Story) awaitNodes(f Facts, j usage.Job, node string, m marks) {
	for _, r := range f.Requests {
		_, ended := f.Outcomes[r.ID]
		if nodes := nodesFor(r, j.ID).Intersect(r.Open()); !ended && !nodes.Empty() {
			if nodes.Contains(node) {
				nodes = nodeset.Of(node)
			}
			s.await(f, r, nodes, f.stepsOf(r, nodes))
			s.Now = f.answers(first(nodes))
			return
		}
	}
	w := Waiting{Nodes: j.Nodes, Since: j.Submitted}
	switch {
	case j.Asked.IsZero():
		w.For = "Slurm, which has not asked for nodes for it"
	case !m.registered.IsZero():
		w.For, w.Since = "Slurm, which starts it when it sees that all of its nodes are up", m.registered
		w.Usual = seconds(f.typical(f.groupOf(node))[usage.PartLaunch].P95)
	default:
		w.For, w.Since = "its next turn: a node did not come, and Slurm puts the job back into its queue", f.lastEnd(j)
		s.adviseOnFailures(f)
	}
	s.WaitsFor = &w
	s.advise("`scontrol show job %d` has Slurm's state and reason", j.ID)
}

// lastEnd returns when the last request for a job ended.
func (f Facts) lastEnd(j usage.Job) time.Time {
	end := j.Asked
	for _, id := range j.Requests {
		if at := f.Outcomes[id].Finished; at.After(end) {
			end = at
		}
	}
	return end
}

// nodesFor returns the nodes that a request names for a job; all of its nodes if it names none.
func nodesFor(r reconfigure.Request, job int64) nodeset.NodeSet {
	for _, named := range reconfigure.Merged(r.Jobs) {
		if named.ID == job {
			return named.Nodes
		}
	}
	return r.Nodes
}
