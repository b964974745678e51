package check

import (
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Measure returns, from the events of requests, the durations of the phases of nodes that became ready, and of
// removals. An event may belong to several requests; it counts once.
func Measure(byRequest map[reconfigure.RequestID][]reconfigure.Event) Times {
	times := Times{Phases: map[reconfigure.Phase][]time.Duration{}}
	for _, steps := range waysOf(byRequest) {
		times.add(steps)
	}
	return times
}

// LastReady returns, from the same events, how long each node took to become ready at its last creation.
func LastReady(byRequest map[reconfigure.RequestID][]reconfigure.Event) map[string]time.Duration {
	ready, at := map[string]time.Duration{}, map[string]time.Time{}
	for w, steps := range waysOf(byRequest) {
		times := Times{Phases: map[reconfigure.Phase][]time.Duration{}}
		times.add(steps)
		if end := steps[len(steps)-1].Time; len(times.Ready) > 0 && end.After(at[w.node]) {
			ready[w.node], at[w.node] = times.Ready[0], end
		}
	}
	return ready
}

// way identifies a node in one plan.
type way struct {
	plan int64
	node string
}

// waysOf returns the events of phases by plan and node, in order.
func waysOf(byRequest map[reconfigure.RequestID][]reconfigure.Event) map[way][]reconfigure.Event {
	ways, seen := map[way][]reconfigure.Event{}, map[int64]bool{}
	for _, e := range slices.Concat(slices.Collect(maps.Values(byRequest))...) {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if e.Node != "" &&
			(e.Level == reconfigure.Begun || e.Level == reconfigure.Done || e.Level == reconfigure.Failed) {
			w := way{e.Plan, e.Node}
			ways[w] = append(ways[w], e)
		}
	}
	for _, steps := range ways {
		slices.SortStableFunc(steps, func(a, b reconfigure.Event) int { return a.Time.Compare(b.Time) })
	}
	return ways
}

// add adds the times of one node in one plan, from its events in order.
func (t *Times) add(steps []reconfigure.Event) {
	begun, took := map[reconfigure.Phase]time.Time{}, map[reconfigure.Phase]time.Duration{}
	for _, e := range steps {
		switch e.Level {
		case reconfigure.Begun:
			begun[e.Phase] = e.Time // the beginning in the last attempt
		case reconfigure.Done:
			if at, ok := begun[e.Phase]; ok {
				took[e.Phase] = e.Time.Sub(at)
			}
		case reconfigure.Failed:
			return
		}
	}
	first, made := begun[reconfigure.PhaseApply]
	_, ready := took[reconfigure.PhaseVerify]
	_, booted := took[reconfigure.PhaseBoot]
	switch {
	case made && booted && ready:
		t.Ready = append(t.Ready, steps[len(steps)-1].Time.Sub(first))
		for phase, d := range took {
			t.Phases[phase] = append(t.Phases[phase], d)
		}
	case made && !booted && begun[reconfigure.PhaseBoot].IsZero() && took[reconfigure.PhaseApply] > 0:
		t.Removed = append(t.Removed, took[reconfigure.PhaseApply])
	}
}

func sortedCopy(all []time.Duration) []time.Duration {
	return slices.Sorted(slices.Values(all))
}
