package batch

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Gather picks the requests, oldest first, that can go together: those of which no two want different things of one node. For one node, a later request
// waits for the earlier ones, so whatever a passed-over request names is closed to all that come after it. A request for the whole cluster goes alone.
func Gather(waiting []reconfigure.Request) []reconfigure.Request {
	var (
		together []reconfigure.Request
		taken    = map[reconfigure.Mode]nodeset.NodeSet{}
		closed   nodeset.NodeSet
	)
	for _, r := range waiting {
		if whole(r.Mode) {
			if len(together) == 0 {
				return []reconfigure.Request{r}
			}
			return together
		}
		conflicts := !closed.Intersect(r.Nodes).Empty()
		for mode, nodes := range taken {
			conflicts = conflicts || mode != r.Mode && !nodes.Intersect(r.Nodes).Empty()
		}
		if conflicts {
			closed = closed.Union(r.Nodes)
			continue
		}
		taken[r.Mode] = taken[r.Mode].Union(r.Nodes)
		together = append(together, r)
	}
	return together
}

func whole(m reconfigure.Mode) bool {
	return m == reconfigure.Deploy || m == reconfigure.Destroy
}
