package usage

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Saved is the waiting that idle instances saved.
type Saved struct {
	Jobs int // that began on an instance that was idle, and for which Slurm asked for no node
	// Wait is how much longer these jobs would have waited if each had waited for an instance: the median of Ready for
	// each job. It is zero if no instance of the group was measured.
	Wait time.Duration
}

// handedOver is the maximum time in which Slurm gives a node that a job has left to a job that waits. A node that
// was without a job for longer was idle. Slurm's times are whole seconds: the end of a job counts as truncated.
const handedOver = 10 * time.Second

// NewSaved returns what idle instances saved the jobs that began since a time, by group, or for one group unless its
// name is empty. A job on several groups counts for the one whose instances take longest.
func NewSaved(f Facts, since time.Time, only string) map[string]Saved {
	jobs, ready := Jobs(f), Ready(f.Lives, time.Time{})
	saved, used := map[string]Saved{}, map[string]uses{}
	for node, all := range byNode(jobs) {
		used[node] = newUses(all, f.Now)
	}
	for _, j := range jobs {
		if !j.Asked.IsZero() || j.Started.IsZero() || j.Started.Before(since) {
			continue
		}
		group, found := "", false
		for _, l := range j.Instances {
			if wasIdle(l, used[l.Node], j.Started) && (!found || ready[l.Group].Median > ready[group].Median) {
				group, found = l.Group, true
			}
		}
		if found && (only == "" || only == group) {
			s := saved[group]
			s.Jobs++
			s.Wait += ready[group].Median
			saved[group] = s
		}
	}
	return saved
}

// wasIdle reports whether an instance was up and without a job before one began on it.
func wasIdle(l reconfigure.Life, u uses, began time.Time) bool {
	before := began.Add(-handedOver)
	up := upSince(l)
	return !up.IsZero() && !up.After(before) && !u.before(began).After(before)
}

// uses has the jobs of a node that began, by their start. until has the latest end of each job and those before it.
type uses struct{ began, until []time.Time }

func newUses(jobs []Job, now time.Time) uses {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.Started.IsZero() })
	slices.SortFunc(jobs, func(a, b Job) int { return a.Started.Compare(b.Started) })
	var u uses
	var last time.Time
	for _, j := range jobs {
		if end := j.until(now); end.After(last) {
			last = end
		}
		u.began, u.until = append(u.began, j.Started), append(u.until, last)
	}
	return u
}

// before returns the latest end of the jobs that began before a time; the zero time: none did.
func (u uses) before(at time.Time) time.Time {
	i, _ := slices.BinarySearchFunc(u.began, at, time.Time.Compare)
	if i == 0 {
		return time.Time{}
	}
	return u.until[i-1]
}
