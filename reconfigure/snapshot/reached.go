package snapshot

import "github.com/eiffel-hpc/eiffel/reconfigure"

// reached returns, by node, the phase in which the last operation for each request was when its worker ended, from
// the ordered events of the requests. An operation that failed has no entry.
func reached(
	events map[reconfigure.RequestID][]reconfigure.Event,
) map[reconfigure.RequestID]map[string]reconfigure.Phase {
	all := map[reconfigure.RequestID]map[string]reconfigure.Phase{}
	for id, its := range events {
		phases := map[string]reconfigure.Phase{}
		for _, e := range its {
			switch e.Level {
			case reconfigure.Begun:
				phases[e.Node] = e.Phase
			case reconfigure.Failed:
				delete(phases, e.Node)
			}
		}
		all[id] = phases
	}
	return all
}
