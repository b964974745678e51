package enginetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
)

// SweeperHarness is a cloud without instances of ours, and what a test can do to it from outside.
type SweeperHarness struct {
	Sweeper engine.Sweeper
	// Stray makes an instance of ours that nobody knows of, and returns its id; a node may have several.
	Stray func(node string) (id string)
}

// Sweeper holds an implementation to the contract of engine.Sweeper. New makes a harness of its own for each call.
func Sweeper(t *testing.T, new func(*testing.T) SweeperHarness) {
	for name, rule := range map[string]func(sweeper){
		"every instance is seen, and one is removed": sweeper.removes,
		"what is not meant stays":                    sweeper.spares,
		"a context that is done":                     sweeper.done,
	} {
		t.Run(name, func(t *testing.T) { rule(sweeper{t, new(t)}) })
	}
}

type sweeper struct {
	*testing.T
	SweeperHarness
}

func (s sweeper) removes() {
	s.wantMade(map[string][]string{})
	one, twin, other := s.Stray("node1"), s.Stray("node1"), s.Stray("node2")
	s.wantMade(map[string][]string{"node1": {one, twin}, "node2": {other}})
	for range 2 { // absent is success
		if err := s.Sweeper.RemoveOrphan(s.Context(), one, "node1", later()); err != nil {
			s.Fatal(err)
		}
		s.wantMade(map[string][]string{"node1": {twin}, "node2": {other}})
	}
}

func (s sweeper) spares() {
	id := s.Stray("node1")
	if err := s.Sweeper.RemoveOrphan(s.Context(), id, "node2", later()); err == nil {
		s.Error("an instance of another name was to be removed, and that was no error")
	}
	if err := s.Sweeper.RemoveOrphan(s.Context(), id, "node1", time.Now().AddDate(-1, 0, 0)); err == nil {
		s.Error("an instance that is too young was to be removed, and that was no error")
	}
	s.wantMade(map[string][]string{"node1": {id}})
}

func (s sweeper) done() {
	id := s.Stray("node1")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if made, err := s.Sweeper.Made(ctx); err == nil {
		s.Errorf("made are %v", made)
	}
	if err := s.Sweeper.RemoveOrphan(ctx, id, "node1", later()); err == nil {
		s.Error("no error")
	}
	s.wantMade(map[string][]string{"node1": {id}})
}

// later is a time before which every instance was made.
func later() time.Time { return time.Now().AddDate(1, 0, 0) }

func (s sweeper) wantMade(want map[string][]string) {
	s.Helper()
	got, err := s.Sweeper.Made(s.Context())
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); err != nil || diff != "" {
		s.Errorf("made: error %v (-want +got):\n%s", err, diff)
	}
}
