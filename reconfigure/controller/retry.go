package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// What keeps requests from being planned is never of their own making; what is, the planner rejects node by node. It is the
// declaration, saved with a slip in it, the cloud that is away, Terraform's state that cannot be reached: all of that passes,
// by itself or when somebody repairs it. So it is not the error that decides whether a request is tried again, but who waits
// for it, and for how long:
//
//   - A suspend as long as it takes: Slurm asks once, and an instance that nobody removes costs money for ever.
//   - A resume until Slurm gives the node up, at ResumeTimeout. It does not help a job any more after that.
//   - An update for as long as it would wait for jobs.
//   - A deploy, a destroy and a change of size not at all: a person follows them, sees the error and decides.
//   - Whatever has drained nodes already as long as it takes: only a plan can give them back. The planner watches the time.
const (
	// longestResume stands for ResumeTimeout where the declaration itself cannot be read. Few clouds need longer.
	longestResume = time.Hour
	// longestUpdate is an update's time where its caller gave none.
	longestUpdate = 24 * time.Hour
)

// Retries reports whether requests of a mode are planned again when they cannot be planned.
func Retries(m reconfigure.Mode) bool {
	return m == reconfigure.Suspend || m == reconfigure.Resume || m == reconfigure.Update
}

// retryLimit is how long a request is planned again, from Submitted on; false: for ever. The cluster is the zero one where its
// declaration cannot be read.
func retryLimit(r reconfigure.Request, c reconfigure.Cluster) (limit time.Duration, limited bool) {
	positive := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	ofNode := func(d reconfigure.Deferral) bool { return d.Node != "" }
	switch {
	case r.Mode == reconfigure.Resume: // has drained nothing
		return positive(c.Slurm.ResumeTimeout, longestResume), true
	case r.Mode == reconfigure.Suspend, slices.ContainsFunc(r.Deferred, ofNode):
		return 0, false
	case r.Mode == reconfigure.Update:
		return positive(r.DrainTimeout, longestUpdate), true
	}
	return 0, true
}

// unplanned is what becomes of a request that cannot be planned now: it is deferred, or fails.
func unplanned(r reconfigure.Request, c reconfigure.Cluster, now time.Time, err error) reconfigure.Outcome {
	o := reconfigure.Outcome{Request: r.ID, Verdicts: r.Verdicts}
	limit, limited := retryLimit(r, c)
	switch {
	case !limited || now.Sub(r.Submitted) < limit:
		whole := func(d reconfigure.Deferral) bool { return d.Node == "" }
		o.Deferred = append(slices.DeleteFunc(slices.Clone(r.Deferred), whole),
			reconfigure.Deferral{Request: r.ID, Kind: reconfigure.CannotPlan, Reason: err.Error()})
		return o
	case r.IsDeferred():
		o.Error = fmt.Sprintf("could not be planned for %s; the last error: %v", limit, err)
	default:
		o.Error = err.Error()
	}
	o.Code = reconfigure.CodeFailed
	return o
}
