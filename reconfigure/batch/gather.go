package batch

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Gather picks the requests, oldest first, that can begin together, beside those that are under way: those of which no two want different things of one node.
// For one node, a later request waits for the earlier ones, so whatever a passed-over request names is closed to all that come after it, and what those under way
// name to all.
//
// A request for the whole cluster goes alone, and does not wait for those that are held: that may take a day. A change of size goes along with others, but begins
// while nothing is under way. Nobody who came later begins before these, so that a stream of small requests does not keep them waiting.
func Gather(waiting, flying []reconfigure.Request) []reconfigure.Request {
	var (
		together []reconfigure.Request
		taken    = map[wish]nodeset.NodeSet{}
		closed   nodeset.NodeSet
	)
	for _, r := range flying {
		if whole(r.Mode) {
			return nil
		}
		closed = closed.Union(r.Open())
	}
	for _, r := range without(waiting, flying) {
		switch {
		case whole(r.Mode) && len(flying) == 0 && !slices.ContainsFunc(together, pressing):
			return []reconfigure.Request{r}
		case whole(r.Mode) || resizes(r.Mode) && len(flying) > 0:
			return together
		}
		own, nodes := wish{r.Mode, r.Options}, r.Open()
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
	}
	return together
}

// pressing tells that a request is not one of those that may be held for a day: a second try has no more time than Slurm's patience leaves it.
func pressing(r reconfigure.Request) bool {
	return fresh(r) || slices.ContainsFunc(r.Waits, func(w reconfigure.Wait) bool { return w.Tries > 0 })
}

// without is the requests that wait less those that are under way, which have no outcome yet either.
func without(waiting, flying []reconfigure.Request) []reconfigure.Request {
	up := map[reconfigure.RequestID]bool{}
	for _, r := range flying {
		up[r.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool { return up[r.ID] })
}

// lull is how long to wait for those that arrive together: Slurm names its nodes in several calls, and each slurmd that reboots makes a call of its own. A run of
// Terraform for the first of them would hold up all others. Where a request has waited that long already, while another batch was under way, there is no more to wait.
func lull(waiting []reconfigure.Request, window time.Duration, now time.Time) time.Duration {
	i := slices.IndexFunc(waiting, fresh)
	if i < 0 {
		return 0
	}
	return min(window, window-now.Sub(waiting[i].Submitted)) // whoever wrote it down may be on a host whose clock is ahead
}

// wish is what a request wants of its nodes.
type wish struct {
	mode    reconfigure.Mode
	options reconfigure.Options
}

func whole(m reconfigure.Mode) bool {
	return m == reconfigure.Deploy || m == reconfigure.Destroy
}

// resizes tells that a mode may have every node get another slurm.conf.
func resizes(m reconfigure.Mode) bool {
	return m == reconfigure.Enlarge || m == reconfigure.Shrink || m == reconfigure.Resize
}
