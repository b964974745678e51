package usage

import (
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
// was without a job for longer was idle.
const handedOver = 10 * time.Second

// savedSince returns what idle instances saved the jobs that began since a time, by group. A job on several groups
// counts for the one whose instances take longest.
func savedSince(since time.Time, jobs []Job, onNode map[string][]Job, ready map[string]Typical) map[string]Saved {
	saved := map[string]Saved{}
	for _, j := range jobs {
		if !j.Asked.IsZero() || j.Started.IsZero() || j.Started.Before(since) {
			continue
		}
		group, found := "", false
		for _, l := range j.Instances {
			if wasIdle(l, onNode[l.Node], j) && (!found || ready[l.Group].Median > ready[group].Median) {
				group, found = l.Group, true
			}
		}
		if found {
			s := saved[group]
			s.Jobs++
			s.Wait += ready[group].Median
			saved[group] = s
		}
	}
	return saved
}

// wasIdle reports whether an instance was up and without a job before one began on it.
func wasIdle(l reconfigure.Life, jobs []Job, began Job) bool {
	before := began.Started.Add(-handedOver)
	if up := upSince(l); up.IsZero() || up.After(before) {
		return false
	}
	for _, j := range jobs {
		if !j.Started.IsZero() && j.Started.Before(began.Started) && (j.Ended.IsZero() || j.Ended.After(before)) {
			return false
		}
	}
	return true
}
