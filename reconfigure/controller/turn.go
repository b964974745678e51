package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// work is one operation in progress.
type work struct {
	began time.Time
	kind  length
}

// length is how long an operation can take.
type length int

const (
	unlimited length = iota // usually minutes, but hours are possible
	limited                 // it ends after about a ResumeTimeout at the latest
	long                    // more than minutes are expected
)

// lengthOf returns how long a plan's operation for a node can take. A resume ends at its deadline, and a removal after
// operation.Timing's Remove.
func lengthOf(p reconfigure.Plan, node string) length {
	c, changes := p.Of(node)
	if !changes || !c.Deadline.IsZero() { // without a change, the operation only tells Slurm
		return limited
	}
	switch c.Action {
	case reconfigure.Capture:
		return long
	case reconfigure.Remove, reconfigure.Stop, reconfigure.Drain, reconfigure.Undrain:
		return limited
	}
	return unlimited
}

// mayPass reports whether resumes and suspends may begin before a request that must be alone and waits for the
// operations under way. Slurm gives up a node at ResumeTimeout, so its resume cannot wait for an image of two hours;
// and if something always begins, a deploy never gets its turn.
//
// So nothing passes while all operations will end soon: while each operation is younger than a third of
// ResumeTimeout. Since nothing begins then, either the request gets its turn within this third, or an operation gets
// older and requests pass again. A resume that had to wait has two thirds left.
//
// If only operations with a limit were in progress for a whole ResumeTimeout, nothing passes until they have ended,
// at the latest after another ResumeTimeout. Otherwise a deploy would never begin if there is always an instance that
// does not boot. Since is the time from which only such operations were in progress while the request waited.
func mayPass(underWay []work, since, now time.Time, resumeTimeout time.Duration) bool {
	overdue := now.Sub(since) >= resumeTimeout
	return slices.ContainsFunc(underWay, func(w work) bool {
		old := now.Sub(w.began) >= resumeTimeout/3
		return w.kind == long || old && !(w.kind == limited && overdue)
	})
}

// busy returns the operations in progress, for a selection from the pending requests.
func (c *controller) busy(pending []reconfigure.Request, now time.Time) busy {
	if c.requests[c.first.id] == nil {
		c.first = first{}
	}
	b := busy{nodes: c.nodes(), alone: c.alone, first: c.first.id}
	for _, r := range pending {
		if !b.mustBeAlone(r) {
			continue
		}
		since := c.requests[r.ID].came
		if r.ID == b.first {
			since = c.first.since
		}
		if c.endless.After(since) {
			since = c.endless
		}
		b.pass = mayPass(slices.Collect(maps.Values(c.underWay)), since, now, c.resumeTimeout)
		break
	}
	return b
}

// nodes returns the nodes with operations in progress.
func (c *controller) nodes() nodeset.NodeSet { return nodeset.Collect(maps.Keys(c.underWay)) }
