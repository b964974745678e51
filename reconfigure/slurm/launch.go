package slurm

import (
	"context"
	"sync"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// arrivals remembers the nodes that were not up when they were last listed. It is safe for concurrent use.
type arrivals struct {
	mu      sync.Mutex
	awaited map[string]bool
}

// of returns the nodes that are up now, and were not before.
func (a *arrivals) of(states map[string]reconfigure.NodeState) nodeset.NodeSet {
	a.mu.Lock()
	defer a.mu.Unlock()
	var up []string
	for name, s := range states {
		switch {
		case !s.Registered():
			if a.awaited == nil {
				a.awaited = map[string]bool{}
			}
			a.awaited[name] = true
		case a.awaited[name]:
			delete(a.awaited, name)
			up = append(up, name)
		}
	}
	return nodeset.Of(up...)
}

// launch tells the control node that these nodes are up. An error is ignored: without the command the jobs start some
// seconds later, and a control node that an older release has deployed rejects it.
func (c *Client) launch(ctx context.Context, up nodeset.NodeSet) {
	if up.Len() > 0 {
		_, _ = c.run(ctx, []string{"up", up.String()})
	}
}
