package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// What keeps requests from being planned is never of their own making; what is, the planner rejects node by node. It is the declaration, saved with a slip in it, the
// cloud that is away or does not take the password, Terraform's state that cannot be reached, a binary that is not there: all of that passes, by itself or
// when somebody mends it. So it is not the error that decides whether a request is tried again, but who waits for it, and for how long:
//
//   - A suspend as long as it takes: Slurm asks once, and an instance that nobody removes costs money for ever.
//   - A resume until Slurm gives the node up, at ResumeTimeout. It does not help a job any more after that.
//   - An update for as long as it would wait for jobs.
//   - A deploy, a destroy and a change of size not at all: a person follows them, sees the error and decides. With --no-wait, too, where nobody sees it: these
//     change the cluster at large, and had better not happen hours later at a moment that nobody chose; `reconfigure status` or the worker's log tell of it.
//   - Whatever has drained nodes already as long as it takes: only a plan can give them back. The planner minds the time.
const (
	// untold is a ResumeTimeout for want of the declared one: the declaration itself cannot be read. Few clouds need longer.
	untold = time.Hour
	// day is an update's time where its caller gave none.
	day = 24 * time.Hour
)

// Patient tells whether requests of a mode are tried again when they cannot be planned.
func Patient(m reconfigure.Mode) bool {
	return m == reconfigure.Suspend || m == reconfigure.Resume || m == reconfigure.Update
}

// patience is how long a request is tried again, from Submitted on; false: for ever. The cluster is the zero one where its declaration cannot be read.
func patience(r reconfigure.Request, c reconfigure.Cluster) (limit time.Duration, limited bool) {
	positive := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	switch {
	case r.Mode == reconfigure.Resume: // has drained nothing
		return positive(c.Slurm.ResumeTimeout, untold), true
	case slices.ContainsFunc(r.Waits, ofNode) || r.Mode == reconfigure.Suspend:
		return 0, false
	case r.Mode == reconfigure.Update:
		return positive(r.DrainTimeout, day), true
	}
	return 0, true
}

func ofNode(w reconfigure.Wait) bool      { return w.Node != "" }
func unplannable(w reconfigure.Wait) bool { return w.Node == "" }

// unplanned is the outcome of a request that cannot be planned now.
func unplanned(r reconfigure.Request, c reconfigure.Cluster, now time.Time, err error) reconfigure.Outcome {
	o := reconfigure.Outcome{Request: r.ID, Verdicts: r.Settled}
	limit, limited := patience(r, c)
	switch {
	case !limited || now.Sub(r.Submitted) < limit:
		o.Waiting = putOff(r, err)
	case r.Held:
		o.Code, o.Error = reconfigure.CodeFailed, fmt.Sprintf("tried again and again for %s, and at last: %v", limit, err)
	default:
		o.Code, o.Error = reconfigure.CodeFailed, err.Error()
	}
	return o
}

// putOff is what a request waits for: what it waited for before, and that the error passes.
func putOff(r reconfigure.Request, err error) []reconfigure.Wait {
	return append(slices.DeleteFunc(slices.Clone(r.Waits), unplannable), reconfigure.Wait{Request: r.ID, Reason: err.Error()})
}

// notes is what people are told of requests that wait now, or for something else than before: one note for all that wait alike.
func notes(batch int64, requests []reconfigure.Request, outcomes []reconfigure.Outcome) []reconfigure.Event {
	known := map[reconfigure.Wait]bool{}
	for _, r := range requests {
		for _, w := range r.Waits {
			known[w] = true
		}
	}
	var alike []*company
	for _, o := range outcomes {
		for _, w := range o.Waiting {
			if known[w] {
				continue
			}
			i := slices.IndexFunc(alike, func(c *company) bool { return c.waits(w) })
			if i < 0 {
				i, alike = len(alike), append(alike, &company{first: w})
			}
			alike[i].add(w)
		}
	}
	var events []reconfigure.Event
	for _, c := range alike {
		events = append(events, reconfigure.Event{Batch: batch, Phase: reconfigure.PhasePlan, Level: reconfigure.Note, Message: c.message()})
	}
	return events
}

// company is those that wait alike: one request for nodes of its own, or several that cannot be planned.
type company struct {
	first    reconfigure.Wait
	requests []string
	nodes    []string
}

func (c *company) waits(w reconfigure.Wait) bool {
	return c.first.Reason == w.Reason && unplannable(c.first) == unplannable(w) && (unplannable(w) || c.first.Request == w.Request)
}

func (c *company) add(w reconfigure.Wait) {
	if id := w.Request.String(); !slices.Contains(c.requests, id) {
		c.requests = append(c.requests, id)
	}
	if ofNode(w) {
		c.nodes = append(c.nodes, w.Node)
	}
}

func (c *company) message() string {
	who := "request " + strings.Join(c.requests, ", ")
	if c.first.Tries > 0 {
		return fmt.Sprintf("%s: %s is %s", who, nodeset.Of(c.nodes...), c.first.Reason)
	}
	if unplannable(c.first) {
		return who + " cannot be planned now, and is tried again: " + c.first.Reason
	}
	return fmt.Sprintf("%s waits for %s: %s", who, nodeset.Of(c.nodes...), c.first.Reason)
}
