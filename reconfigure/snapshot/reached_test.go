package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestReachedIsThePhaseThatBeganLast(t *testing.T) {
	event := func(node string, phase reconfigure.Phase, level reconfigure.Level) reconfigure.Event {
		return reconfigure.Event{Node: node, Phase: phase, Level: level}
	}
	got := reached(map[reconfigure.RequestID][]reconfigure.Event{
		1: {
			event("boots", reconfigure.PhaseApply, reconfigure.Begun),
			event("again", reconfigure.PhaseBoot, reconfigure.Begun),
			event("fails", reconfigure.PhaseVerify, reconfigure.Begun),
			event("boots", reconfigure.PhaseApply, reconfigure.Done),
			event("boots", reconfigure.PhaseBoot, reconfigure.Begun),
			event("again", reconfigure.PhaseApply, reconfigure.Begun), // the next attempt
			event("fails", reconfigure.PhaseVerify, reconfigure.Failed),
			event("boots", reconfigure.PhaseApply, reconfigure.Note), // of Terraform's run, which goes on
		},
		2: {event("fails", reconfigure.PhaseConfigure, reconfigure.Begun)},
	})
	want := map[reconfigure.RequestID]map[string]reconfigure.Phase{
		1: {"boots": reconfigure.PhaseBoot, "again": reconfigure.PhaseApply},
		2: {"fails": reconfigure.PhaseConfigure},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
