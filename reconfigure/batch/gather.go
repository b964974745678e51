package batch

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Gather picks the requests, oldest first, that can go together: those of which no two want different things of one node. For one node, a later request
// waits for the earlier ones, so whatever a passed-over request names is closed to all that come after it. A request for the whole cluster goes alone, and does
// not wait for those that are held: that may take a day.
func Gather(waiting []reconfigure.Request) []reconfigure.Request {
	var (
		together []reconfigure.Request
		taken    = map[wish]nodeset.NodeSet{}
		closed   nodeset.NodeSet
	)
	for _, r := range waiting {
		if whole(r.Mode) {
			if !slices.ContainsFunc(together, fresh) {
				return []reconfigure.Request{r}
			}
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
