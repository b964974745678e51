package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A request cannot be planned if the declaration has an error, or if the cloud or Terraform's state cannot be
// reached. (The planner rejects errors in a request itself node by node.) All these errors pass, by themselves or
// after a repair. So whether a request is planned again does not depend on the error, but on who waits for it:
//
//   - A suspend without limit: Slurm asks once, and an instance that is not removed costs money.
//   - A resume until ResumeTimeout, when Slurm gives the node up.
//   - An update for as long as it would wait for jobs.
//   - A deploy, a destroy and a change of size not at all: a person follows them, sees the error and decides.
//   - A request for an image without limit from the first operation on: the node's disk may have been cleaned.
//   - A request for health checks without limit from the first operation on: the node may be drained for it.
//   - A request that has drained nodes without limit: only a plan can undrain them. The planner ends it after its time.
const (
	// longestResume replaces ResumeTimeout if the declaration cannot be read. Few clouds need longer.
	longestResume = time.Hour
	// longestUpdate is the limit of an update without a drain timeout.
	longestUpdate = 24 * time.Hour
)

// Retries reports whether requests of a mode are retried if they cannot be planned.
func Retries(m reconfigure.Mode) bool {
	return m == reconfigure.Suspend || m == reconfigure.Resume || m == reconfigure.Update
}

// retryLimit returns how long a request is retried, from Submitted on; false: without limit. The cluster is the zero
// value if its declaration cannot be read.
func retryLimit(r reconfigure.Request, c reconfigure.Cluster) (limit time.Duration, limited bool) {
	positive := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	ofNode := func(d reconfigure.Deferral) bool { return d.Node != "" }
	switch {
	case r.Mode == reconfigure.Resume: // it drains no nodes
		return positive(c.Slurm.ResumeTimeout, longestResume), true
	case (r.Mode == reconfigure.MakeImage || r.Mode == reconfigure.CheckNodes) && r.Touched:
		return 0, false
	case r.Mode == reconfigure.Suspend, slices.ContainsFunc(r.Deferred, ofNode):
		return 0, false
	case r.Mode == reconfigure.Update:
		return positive(r.DrainTimeout, longestUpdate), true
	}
	return 0, true
}

// unplanned returns the outcome of a request that cannot be planned now: it is deferred, or fails.
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
