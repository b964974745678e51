package batch

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Selection is what the next batch is to be.
type Selection struct {
	Together []reconfigure.Request // that it carries
	Undone   []reconfigure.Outcome // of the requests that need not begin any more when these do
}

// Next decides what goes into the next batch, of the requests that wait, oldest first, beside those that are under way. A request that another one undoes is left out, and stands until that one
// begins: should that be taken back before, nothing is lost.
func Next(waiting, flying []reconfigure.Request, now time.Time) Selection {
	waiting = without(waiting, flying)
	undone := Undone(waiting)
	rest := slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool { return undone[r.ID] != 0 })
	next := Selection{Together: giveWay(Gather(rest, flying), rest, now)}
	for _, r := range waiting {
		by := undone[r.ID]
		if slices.ContainsFunc(next.Together, func(t reconfigure.Request) bool { return by != 0 && t.ID == by }) {
			next.Undone = append(next.Undone, undoing(r.ID, by))
		}
	}
	return next
}

// giveWay is a batch less what only tidies up, where it has something that a job waits for: to remove instances takes Terraform minutes. But nobody starves: a
// request that was passed over for a while goes along whatever else there is. What a node's resume has to wait for anyway does not give way to others.
func giveWay(together, waiting []reconfigure.Request, now time.Time) []reconfigure.Request {
	if !slices.ContainsFunc(together, urgent) {
		return together
	}
	needed := neededFirst(waiting)
	var closed nodeset.NodeSet
	return slices.DeleteFunc(slices.Clone(together), func(r reconfigure.Request) bool {
		gives := tidies(r) && (!needed[r.ID] && !passedOver(r, now) || !closed.Intersect(r.Open()).Empty())
		if gives {
			closed = closed.Union(r.Open())
		}
		return gives
	})
}

// urgent tells that a job waits for a request. One that is held was tried, and may be held for long.
func urgent(r reconfigure.Request) bool { return r.Mode == reconfigure.Resume && fresh(r) }

// tidies tells that nobody waits for what a request is to do.
func tidies(r reconfigure.Request) bool { return r.Mode == reconfigure.Suspend }

// passedOver tells that batches were begun without a request for a while. What the clock of another host may say of the future is not believed.
func passedOver(r reconfigure.Request, now time.Time) bool {
	const while = time.Minute
	ago := now.Sub(r.Passed)
	return !r.Passed.IsZero() && (ago >= while || ago < 0)
}

// neededFirst is the requests that a resume waits for, be it for one that waits for another one.
func neededFirst(waiting []reconfigure.Request) map[reconfigure.RequestID]bool {
	needed := map[reconfigure.RequestID]bool{}
	var nodes nodeset.NodeSet
	for _, r := range slices.Backward(waiting) {
		needed[r.ID] = !nodes.Intersect(r.Open()).Empty()
		if needed[r.ID] || r.Mode == reconfigure.Resume {
			nodes = nodes.Union(r.Open())
		}
	}
	return needed
}
