package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Selection has the requests that are planned next.
type Selection struct {
	Together []reconfigure.Request // the requests that are planned from one snapshot
	Undone   []reconfigure.Outcome // the outcomes of requests that become unnecessary when these begin
	// Superseded are the requests that end when a destroy begins.
	Superseded []reconfigure.RequestID
}

// busy describes the operations in progress, and their consequences for requests that have not begun.
type busy struct {
	nodes nodeset.NodeSet       // the nodes with operations in progress
	alone bool                  // a plan that concerns every node is in progress: nothing else begins
	first reconfigure.RequestID // a change of size whose plan must be alone; zero: none is known
	pass  bool                  // resumes and suspends may begin before a request that must be alone
}

// mustBeAlone reports whether a request begins only when nothing is in progress. A previewed request has no id.
func (b busy) mustBeAlone(r reconfigure.Request) bool {
	return whole(r.Mode) || b.first != 0 && r.ID == b.first
}

// Next selects the requests that are planned next, from those without an outcome, oldest first. Next leaves out a
// request that another one undoes, but it stays open until the other one begins, which may be cancelled before. Ready
// reports whether a request may be planned now: not while its operations are in progress, and a deferred request not
// before it is due.
func Next(pending []reconfigure.Request, now busy, ready func(reconfigure.Request) bool) Selection {
	undone, superseded := Undone(pending), Superseded(pending)
	rest := slices.DeleteFunc(slices.Clone(pending), func(r reconfigure.Request) bool {
		return undone[r.ID] != 0 || slices.Contains(superseded, r.ID)
	})
	next := Selection{Together: admit(rest, now, ready)}
	if len(next.Together) == 1 && next.Together[0].Mode == reconfigure.Destroy {
		next.Superseded = superseded
	}
	since := suspended(pending)
	for i, r := range next.Together {
		next.Together[i].Suspended = since[r.ID]
	}
	for _, r := range pending {
		by := undone[r.ID]
		if by != 0 && slices.ContainsFunc(next.Together, func(t reconfigure.Request) bool { return t.ID == by }) {
			next.Undone = append(next.Undone, undoing(r.ID, by))
		}
	}
	return next
}

// With returns the requests that would be planned together with r if nothing were in progress. If r must wait for
// others, it is planned alone, as if they had ended.
func With(pending []reconfigure.Request, r reconfigure.Request) []reconfigure.Request {
	any := func(reconfigure.Request) bool { return true }
	together := Next(append(slices.Clone(pending), r), busy{}, any).Together
	if slices.ContainsFunc(together, func(one reconfigure.Request) bool { return one.ID == r.ID }) {
		return together
	}
	return []reconfigure.Request{r}
}

// admit returns the requests that can be planned together, at the same time as the operations in progress: no two of
// them ask for different things at a node. For each node, a later request waits for the earlier ones, so later
// requests cannot have the nodes of a request that is left out. A request that must be alone waits until nothing is
// in progress, but not for deferred requests, which may take a day. Of the later requests, only resumes and suspends
// begin before it, and only while mayPass allows it. None begins before a destroy, which undoes them all. A change of
// size is planned alone, since its plan may concern every node.
func admit(pending []reconfigure.Request, now busy, ready func(reconfigure.Request) bool) []reconfigure.Request {
	if now.alone {
		return nil
	}
	var (
		together []reconfigure.Request
		taken    = map[intent]nodeset.NodeSet{}
		closed   = now.nodes
		passing  = false // requests from here on come after one that must be alone
	)
	for _, r := range pending {
		nodes := r.Open()
		switch {
		case now.mustBeAlone(r):
			if len(together) == 0 && now.nodes.Empty() && !passing {
				return []reconfigure.Request{r}
			}
			if !now.pass || r.Mode == reconfigure.Destroy {
				return together
			}
			passing, closed = true, closed.Union(nodes)
			continue
		case passing && r.Mode != reconfigure.Resume && r.Mode != reconfigure.Suspend:
			closed = closed.Union(nodes)
			continue
		case !ready(r):
			closed = closed.Union(nodes)
			continue
		case resizes(r.Mode) && len(together) > 0:
			closed = closed.Union(nodes)
			continue
		}
		own := intent{r.Mode, r.Options}
		conflicts := !closed.Intersect(nodes).Empty()
		for other, theirs := range taken {
			conflicts = conflicts || other != own && !theirs.Intersect(nodes).Empty()
		}
		if conflicts {
			closed = closed.Union(nodes)
			continue
		}
		taken[own] = taken[own].Union(nodes)
		together = append(together, r)
		if resizes(r.Mode) {
			return together
		}
	}
	return together
}

// intent is what a request asks for at its nodes.
type intent struct {
	mode    reconfigure.Mode
	options reconfigure.Options
}

// whole reports whether a mode concerns the whole cluster.
func whole(m reconfigure.Mode) bool { return m == reconfigure.Deploy || m == reconfigure.Destroy }

// resizes reports whether a mode may change slurm.conf on every node.
func resizes(m reconfigure.Mode) bool {
	return m == reconfigure.Enlarge || m == reconfigure.Shrink || m == reconfigure.Resize
}

// window returns how long to wait for further requests before these are planned, since each rebooting slurmd makes its
// own call. The wait ends when no request came for quiet, at the latest when the oldest request has waited for longest.
// A resume does not wait: slurmctld names all nodes in one call, and the next call comes a second later
// (power_save.c, power_save_interval).
func window(requests []reconfigure.Request, quiet, longest time.Duration, now time.Time) time.Duration {
	var oldest, newest time.Time
	for _, r := range requests {
		if r.IsDeferred() || whole(r.Mode) || r.Mode == reconfigure.Resume {
			continue
		}
		if oldest.IsZero() || r.Submitted.Before(oldest) {
			oldest = r.Submitted
		}
		if r.Submitted.After(newest) {
			newest = r.Submitted
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return min(quiet-now.Sub(newest), longest-now.Sub(oldest))
}

// Undone returns the resumes that a later suspend undoes before anything was done for them, with that suspend. Such a
// resume need not begin, since its nodes have no instance at the end in any case. The suspend stays: an earlier
// failure may have left an instance, and without one the suspend costs nothing.
//
// A suspend is never undone by a later resume. Slurm waits for a boot after its call of ResumeProgram (slurm.conf(5),
// ResumeTimeout); the old instance booted earlier, and may have files of its last job.
//
// A resume is undone as a whole or not at all, and only by a suspend of all of its nodes from the same caller, so
// that an administrator does not cancel a resume of Slurm by accident. It is not undone if a request in between names
// one of the nodes or concerns the whole cluster.
func Undone(pending []reconfigure.Request) map[reconfigure.RequestID]reconfigure.RequestID {
	undone := map[reconfigure.RequestID]reconfigure.RequestID{}
	next := map[string]reconfigure.Request{} // for each node: the next request that is not a resume
	for _, r := range slices.Backward(pending) {
		switch {
		case whole(r.Mode):
			clear(next)
		case r.Mode != reconfigure.Resume:
			for node := range r.Open().All() {
				next[node] = r
			}
		case !r.Touched:
			if by, ok := undoes(next, r); ok {
				undone[r.ID] = by
			}
		}
	}
	return undone
}

// Superseded returns the requests that end when the oldest destroy begins.
func Superseded(pending []reconfigure.Request) []reconfigure.RequestID {
	destroy := slices.IndexFunc(pending, func(r reconfigure.Request) bool { return r.Mode == reconfigure.Destroy })
	if destroy < 0 {
		return nil
	}
	var superseded []reconfigure.RequestID
	for _, r := range pending[:destroy] {
		if r.SupersededBy(pending[destroy]) {
			superseded = append(superseded, r.ID)
		}
	}
	return superseded
}

// undoes returns the suspend that comes next for every node of a resume; false if there is none.
func undoes(next map[string]reconfigure.Request, r reconfigure.Request) (by reconfigure.RequestID, ok bool) {
	for node := range r.Nodes.All() {
		s, named := next[node]
		if !named || s.Mode != reconfigure.Suspend || s.Caller != r.Caller || ok && s.ID != by {
			return 0, false
		}
		by, ok = s.ID, true
	}
	return by, ok
}

// undoing returns the outcome of a request that another one undoes.
func undoing(id, by reconfigure.RequestID) reconfigure.Outcome {
	return reconfigure.Outcome{
		Request: id, Code: reconfigure.CodeCancelled,
		Error: fmt.Sprintf("request %s suspends its nodes again, and came before this one began", by),
	}
}
