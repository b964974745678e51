// Package usage computes from the journal's data which instances served which jobs, the timeline of a job and its
// instances, and the use of the instances' hours. It asks no source and changes nothing.
package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Facts has the known jobs and instances.
type Facts struct {
	Now      time.Time
	Runs     []reconfigure.JobRun  // sorted by number, then by submission
	Lives    []reconfigure.Life    // in the order in which they were made
	Requests []reconfigure.Request // the requests that name the jobs, the oldest first
	Events   map[reconfigure.RequestID][]reconfigure.Event
	Outcomes map[reconfigure.RequestID]reconfigure.Outcome

	byNode map[string][]reconfigure.Life // the lives; set by Candidates.Jobs
}

// Job is one run of a job, with the instances that served it or were made for it.
type Job struct {
	reconfigure.JobRun
	// Asked is when Slurm first asked for nodes for the job; zero: its nodes were up already.
	Asked    time.Time               `json:"asked,omitzero"`
	Requests []reconfigure.RequestID `json:"requests"`
	// Instances has those on which the job ran, and those that were made for it and failed to boot.
	Instances []reconfigure.Life `json:"instances"`
	// Why is what the job waits for, or why it last did not get a node.
	Why      string `json:"why,omitempty"`
	Timeline []Step `json:"timeline"`
}

// StateUnknown is the state of a job for which Slurm asked for nodes, and that is neither in Slurm's list of ended
// jobs nor in slurmctld.
const StateUnknown = "UNKNOWN"

const (
	// truncated is the maximum error of Slurm's times, which are cut off to whole seconds.
	truncated = time.Second
	// early is how long before the submission of a job, by Slurm's clock, a request may name it. An older request is for
	// another job with the same number.
	early = 10 * time.Minute
	// noticed is the maximum delay with which we notice that slurmd has registered.
	noticed = 5 * time.Second
)

// Jobs returns the runs of jobs, and the jobs that have no run and that requests name, the newest last.
func Jobs(f Facts) []Job { return Candidates{claims(f)}.Jobs(f) }

// Candidates are jobs that may fit a filter, see Filter.Candidates.
type Candidates struct{ claims []claim }

// Requests returns the requests that name the candidates, without duplicates. Only their events and outcomes are needed
// for Jobs.
func (c Candidates) Requests() []reconfigure.RequestID {
	var ids []reconfigure.RequestID
	for _, one := range c.claims {
		ids = append(ids, one.job().Requests...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Jobs returns the candidates, the newest last.
func (c Candidates) Jobs(f Facts) []Job {
	var jobs []Job
	f.byNode = map[string][]reconfigure.Life{}
	for _, l := range f.Lives {
		f.byNode[l.Node] = append(f.byNode[l.Node], l)
	}
	for _, one := range c.claims {
		jobs = append(jobs, newJob(f, one))
	}
	slices.SortStableFunc(jobs, func(a, b Job) int {
		return cmp.Or(a.since().Compare(b.since()), cmp.Compare(a.ID, b.ID))
	})
	return jobs
}

// since returns when a job was first known.
func (j Job) since() time.Time {
	if j.Submitted.IsZero() {
		return j.Asked
	}
	return j.Submitted
}

// until returns the end of a job; now if it has not ended.
func (j Job) until(now time.Time) time.Time {
	if j.Ended.IsZero() {
		return now
	}
	return j.Ended.Add(truncated)
}

// last returns when a job was last known; zero: it has not ended.
func (j Job) last() time.Time {
	if j.State == StateUnknown && j.Ended.IsZero() {
		return j.Asked
	}
	return j.Ended
}

// claim is a run of a job, with the requests that name it.
type claim struct {
	reconfigure.JobRun
	requests []reconfigure.Request
}

// job returns the job without the facts from its instances and events.
func (c claim) job() Job {
	j := Job{JobRun: c.JobRun, Requests: []reconfigure.RequestID{}, Instances: []reconfigure.Life{}}
	for _, r := range c.requests {
		j.Requests = append(j.Requests, r.ID)
		if j.Asked.IsZero() || r.Submitted.Before(j.Asked) {
			j.Asked = r.Submitted
		}
	}
	return j
}

// nodes returns the nodes that the job has or had, and those that Slurm asked for.
func (c claim) nodes() nodeset.NodeSet {
	nodes := c.Nodes
	for _, r := range c.requests {
		for _, job := range r.Jobs {
			if job.ID == c.ID {
				nodes = nodes.Union(job.Nodes)
			}
		}
	}
	return nodes
}

// claims returns each run with its requests, and then the jobs that have no run.
func claims(f Facts) []claim {
	all := make([]claim, len(f.Runs))
	ofJob := map[int64][]int{}
	for i, run := range f.Runs {
		all[i].JobRun = run
		ofJob[run.ID] = append(ofJob[run.ID], i)
	}
	for _, r := range f.Requests {
		for _, job := range reconfigure.Merged(r.Jobs) {
			i := run(f.Runs, ofJob[job.ID], r.Submitted)
			if i < 0 {
				i = len(all)
				all = append(all, claim{JobRun: reconfigure.JobRun{
					ID: job.ID, Partition: job.Partition, State: StateUnknown, Nodes: job.Nodes,
				}})
				ofJob[job.ID] = []int{i} // later requests name the same job
			}
			all[i].requests = append(all[i].requests, r)
		}
	}
	return all
}

// run returns the place of the run of a job that a request at a time is for: the last run submitted before it, else
// one submitted soon after it. It returns -1 if there is none. A place beyond the runs is a job without a run.
func run(runs []reconfigure.JobRun, places []int, at time.Time) int {
	found := -1
	for _, i := range places {
		switch {
		case i >= len(runs), !runs[i].Submitted.After(at):
			found = i
		case found < 0 && runs[i].Submitted.Sub(at) < early:
			return i
		}
	}
	return found
}

func newJob(f Facts, c claim) Job {
	j := c.job()
	nodes := c.nodes()
	failures := failuresOf(f, nodes, c.requests)
	if !j.began(f, failures) {
		j.Started = time.Time{}
	}
	for node := range nodes.All() {
		for _, l := range f.byNode[node] {
			if j.MadeFor(l, f.Now) || j.ranOn(l) {
				j.Instances = append(j.Instances, j.seen(l))
			}
		}
	}
	if len(failures) > 0 {
		j.Why = failures[len(failures)-1].Text
	}
	if waits := waitsOf(nodes, c.requests); waits != "" && j.Started.IsZero() && j.Ended.IsZero() {
		j.Why = waits
	}
	j.Timeline = timeline(j, c.requests, failures)
	return j
}

// MadeFor reports whether an instance of one of its nodes was made after Slurm had asked for nodes for the job, and
// before the job began.
func (j Job) MadeFor(l reconfigure.Life, now time.Time) bool {
	end := j.until(now)
	if !j.Started.IsZero() {
		end = j.Started.Add(truncated)
	}
	return !j.Asked.IsZero() && !l.Made.Before(j.Asked) && !l.Made.After(end)
}

// seen corrects the life of an instance by the start of the job: slurmd registers before the start, but we notice it
// a little later.
func (j Job) seen(l reconfigure.Life) reconfigure.Life {
	start := j.Started.Add(truncated)
	if j.Started.IsZero() || !l.Registered.After(start) || !l.Made.Before(start) {
		return l
	}
	l.Registered = start
	for _, step := range []*time.Time{&l.Configured, &l.Booted} {
		if step.After(start) {
			*step = start
		}
	}
	return l
}

// ranOn reports whether an instance of one of its nodes existed when the job began.
func (j Job) ranOn(l reconfigure.Life) bool {
	return !j.Started.IsZero() && !l.Made.After(j.Started.Add(truncated)) && (!l.Ended() || l.Removed.After(j.Started))
}

// began reports whether the job has begun. While the nodes of a job boot, Slurm reports the time of their allocation
// as the start of the job, and keeps it if a node fails to boot.
func (j Job) began(f Facts, failures []Step) bool {
	// The states of jobs that may end before their nodes have come up (squeue(1), JOB STATE CODES).
	unbegun := []string{"NODE_FAIL", "BOOT_FAIL", "CANCELLED", "DEADLINE", "PREEMPTED", "REQUEUED", "PENDING"}
	if j.Started.IsZero() || j.Asked.IsZero() || !slices.Contains(unbegun, j.State) {
		return !j.Started.IsZero()
	}
	for node := range j.Nodes.All() {
		made, up := 0, false
		for _, l := range f.byNode[node] {
			if l.Made.After(j.until(f.Now)) {
				continue
			}
			if l.Made.Before(j.Asked) {
				up = up || j.ranOn(l)
				continue
			}
			made++
			up = up || !l.Registered.IsZero() && !l.Registered.After(j.until(f.Now).Add(noticed))
		}
		failed := slices.ContainsFunc(failures, func(s Step) bool { return s.Node == node })
		if !up && (made > 0 || failed) {
			return false
		}
	}
	return true
}

// waitsOf returns what requests without an outcome wait for.
func waitsOf(nodes nodeset.NodeSet, requests []reconfigure.Request) string {
	for _, r := range slices.Backward(requests) {
		for _, d := range r.Deferred {
			if d.Node == "" || nodes.Contains(d.Node) {
				return d.Reason
			}
		}
	}
	return ""
}
