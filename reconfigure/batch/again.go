package batch

import (
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// again is what a request waits for with nodes whose instance was no good: another try. How many there were stands beside it in the journal, so that none is
// forgotten when a worker dies.
func again(r reconfigure.Request, verdicts map[string]reconfigure.Verdict) []reconfigure.Wait {
	var waits []reconfigure.Wait
	for node := range r.Open().All() {
		v := verdicts[node]
		if !v.Again {
			continue
		}
		tried, _ := r.Wait(node)
		waits = append(waits, reconfigure.Wait{
			Node: node, Request: r.ID, Reason: "tried once more on a fresh instance: " + v.Class.Said(v.Reason), Tries: tried.Tries + 1, Class: v.Class,
		})
	}
	return waits
}

// triesAgain tells that the outcomes have another try waiting that the requests had not: it is begun at once, since Slurm's time for the node goes on.
func triesAgain(requests []reconfigure.Request, outcomes []reconfigure.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o reconfigure.Outcome) bool {
		return slices.ContainsFunc(o.Waiting, func(w reconfigure.Wait) bool {
			return w.Tries > 0 && !slices.ContainsFunc(requests, func(r reconfigure.Request) bool { return slices.Contains(r.Waits, w) })
		})
	})
}
