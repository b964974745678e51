package status

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fakeLog is what a PauseTeller looks at.
type fakeLog struct {
	holder string
	paused bool
}

func (l *fakeLog) Holder(context.Context) string { return l.holder }

func (l *fakeLog) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk\nis swapped"}, l.paused, nil
}

func TestWhoFollowsHearsOfAPauseOnce(t *testing.T) {
	log := &fakeLog{paused: true, holder: "process 1"} // operations are under way still
	teller := PauseTeller{Log: log, Request: 7}
	now := noon
	look := func() (said []string) {
		t.Helper()
		for range 3 {
			now = now.Add(2 * time.Second)
			events, err := teller.Look(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				said = append(said, e.Message)
			}
		}
		return said
	}
	for _, step := range []struct {
		holder string
		paused bool
		want   []string
	}{
		{"process 1", true, nil},
		{"", true, []string{"request 7 waits: paused by alice since 2026-01-31T12:00:00Z: a disk is swapped"}},
		{"", false, []string{"the pause has ended"}},
		{"process 2", false, nil},
	} {
		log.holder, log.paused = step.holder, step.paused
		if diff := cmp.Diff(step.want, look()); diff != "" {
			t.Errorf("holder %q, paused %t (-want +got):\n%s", step.holder, step.paused, diff)
		}
	}
}
