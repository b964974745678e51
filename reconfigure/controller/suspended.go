package controller

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// suspended returns the resumes with nodes that a later suspend from the same caller names, with these nodes, and
// with those of them that a still later resume names. Only Slurm knows whether it still waits for such a node, since
// calls may come late. If Slurm has resumed the node again, it no longer waits for the first resume.
//
// A request in between that names the node, or concerns the whole cluster, hides the suspend.
func suspended(pending []reconfigure.Request) map[reconfigure.RequestID]reconfigure.Suspended {
	type next struct {
		by    reconfigure.Request // the next request that is not a resume
		again bool                // a resume comes after it
	}
	found := map[reconfigure.RequestID]reconfigure.Suspended{}
	after, resumed := map[string]next{}, map[string]bool{}
	for i := len(pending) - 1; i >= 0; i-- {
		switch r := pending[i]; {
		case whole(r.Mode):
			clear(after)
			clear(resumed)
		case r.Mode != reconfigure.Resume:
			for node := range r.Open().All() {
				after[node], resumed[node] = next{r, resumed[node]}, false
			}
		default:
			var s reconfigure.Suspended
			for node := range r.Nodes.All() {
				resumed[node] = true
				n, named := after[node]
				if !named || n.by.Mode != reconfigure.Suspend || n.by.Caller != r.Caller {
					continue
				}
				s.Nodes = s.Nodes.Union(nodeset.Of(node))
				if n.again {
					s.Again = s.Again.Union(nodeset.Of(node))
				}
			}
			if !s.Nodes.Empty() {
				found[r.ID] = s
			}
		}
	}
	return found
}

// endSuspended tells the operator to end the operations of resumes whose nodes were suspended later: at once when the
// suspend has come, and then from time to time, since Slurm may not answer.
func (c *controller) endSuspended() {
	if c.operator == nil || len(c.underWay) == 0 || c.queue.newest == c.checked.newest && time.Now().Before(c.checked.again) {
		return
	}
	c.checked = checked{c.queue.newest, time.Now().Add(again)}
	for id, s := range suspended(c.pending()) {
		s.Nodes, s.Again = s.Nodes.Intersect(c.requests[id].underWay), s.Again.Intersect(c.requests[id].underWay)
		if !s.Nodes.Empty() {
			c.operator.Suspended(s)
		}
	}
}
