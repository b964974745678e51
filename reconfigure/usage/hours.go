package usage

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Hours divides the time of instances by its use. The sum is the time in which they existed.
type Hours struct {
	Used    time.Duration // at least one job ran on it
	Idle    time.Duration // it was up, and no job ran on it
	Booting time.Duration // from when the cloud had it until slurmd registered
	Wasted  time.Duration // of an instance that never came up
}

// Total returns the sum.
func (h Hours) Total() time.Duration { return h.Used + h.Idle + h.Booting + h.Wasted }

// Report has the hours of all instances in a period.
type Report struct {
	Since, Until time.Time
	// Groups has the hours by node group. Users has the same hours by user: the hours of a node that several jobs use
	// at the same time are divided equally among the jobs, and those of an instance that boots or fails among the
	// jobs for which it was made. Hours without a job have the user Nobody.
	Groups, Users map[string]Hours
	// Instances is the number of instances, by group. A rebuilt instance counts again.
	Instances map[string]int
	Saved     map[string]Saved // by group; see NewSaved
}

// Nobody is the user of the hours that belong to no job.
const Nobody = ""

// NewReport returns the hours from since until the time of the facts; group limits it to one node group, unless it is
// empty. It has no Saved.
func NewReport(f Facts, since time.Time, group string) Report {
	r := Report{
		Since: since, Until: f.Now, Groups: map[string]Hours{}, Users: map[string]Hours{}, Instances: map[string]int{},
	}
	onNode := byNode(Jobs(f))
	for _, l := range f.Lives {
		from, to := l.Made, f.Now
		if from.Before(since) {
			from = since
		}
		if l.Ended() && l.Removed.Before(to) {
			to = l.Removed
		}
		if group != "" && l.Group != group || !from.Before(to) {
			continue
		}
		r.Instances[l.Group]++
		r.count(l, onNode[l.Node], from, to)
	}
	return r
}

// byNode returns the jobs by the nodes that they have or had.
func byNode(jobs []Job) map[string][]Job {
	onNode := map[string][]Job{}
	for _, j := range jobs {
		nodes := j.Nodes
		for _, l := range j.Instances {
			nodes = nodes.Union(nodeset.Of(l.Node))
		}
		for node := range nodes.All() {
			onNode[node] = append(onNode[node], j)
		}
	}
	return onNode
}

// upSince returns when slurmd registered; the zero time: it has not.
func upSince(l reconfigure.Life) time.Time {
	if l.Plan == 0 { // the instance was found already running
		return l.Made
	}
	return l.Registered
}

// count adds the hours of an instance in a period.
func (r Report) count(l reconfigure.Life, jobs []Job, from, to time.Time) {
	var waiting []Job
	for _, j := range jobs {
		l = j.seen(l)
		if j.MadeFor(l, r.Until) {
			waiting = append(waiting, j)
		}
	}
	up := upSince(l)
	switch {
	case up.IsZero() && (l.Ended() || l.Failed != ""):
		r.divide(l.Group, waiting, to.Sub(from), func(h *Hours) *time.Duration { return &h.Wasted })
		return
	case up.IsZero() || up.After(to):
		up = to
	case up.Before(from):
		up = from
	}
	r.divide(l.Group, waiting, up.Sub(from), func(h *Hours) *time.Duration { return &h.Booting })
	for _, p := range periods(jobs, up, to, r.Until) {
		if len(p.jobs) == 0 {
			r.divide(l.Group, nil, p.length, func(h *Hours) *time.Duration { return &h.Idle })
			continue
		}
		r.divide(l.Group, p.jobs, p.length, func(h *Hours) *time.Duration { return &h.Used })
	}
}

// divide adds time to a group, and divides it among the users of jobs.
func (r Report) divide(group string, jobs []Job, d time.Duration, of func(*Hours) *time.Duration) {
	add := func(all map[string]Hours, name string, d time.Duration) {
		h := all[name]
		*of(&h) += d
		all[name] = h
	}
	if d == 0 {
		return
	}
	add(r.Groups, group, d)
	if len(jobs) == 0 {
		add(r.Users, Nobody, d)
		return
	}
	part := d / time.Duration(len(jobs))
	add(r.Users, jobs[0].User, d-part*time.Duration(len(jobs)))
	for _, j := range jobs {
		add(r.Users, j.User, part)
	}
}

// period is a period in which the same jobs run.
type period struct {
	length time.Duration
	jobs   []Job
}

// periods divides a time by the starts and ends of the jobs that ran in it.
func periods(jobs []Job, from, to, now time.Time) (all []period) {
	type span struct {
		begin, end time.Time
		job        Job
	}
	var spans []span
	times := []time.Time{from, to}
	for _, j := range jobs {
		s := span{j.Started, j.Ended, j}
		if s.begin.Before(from) {
			s.begin = from
		}
		if s.end.IsZero() {
			s.end = now
		}
		if s.end.After(to) {
			s.end = to
		}
		if !j.Started.IsZero() && s.begin.Before(s.end) {
			spans, times = append(spans, s), append(times, s.begin, s.end)
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.begin.Compare(b.begin) })
	slices.SortFunc(times, time.Time.Compare)
	var running []span
	for i, next := range times[1:] {
		at := times[i]
		for len(spans) > 0 && !spans[0].begin.After(at) {
			running, spans = append(running, spans[0]), spans[1:]
		}
		running = slices.DeleteFunc(running, func(s span) bool { return !s.end.After(at) })
		if next.Equal(at) {
			continue
		}
		p := period{length: next.Sub(at)}
		for _, s := range running {
			p.jobs = append(p.jobs, s.job)
		}
		all = append(all, p)
	}
	return all
}
