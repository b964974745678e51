package status

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fakeLog is what a Teller looks at.
type fakeLog struct {
	holder   string
	paused   bool
	begun    bool
	deferred []reconfigure.Deferral
}

func (l *fakeLog) Holder(context.Context) string { return l.holder }

func (l *fakeLog) Request(_ context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return reconfigure.Request{ID: id, Mode: reconfigure.Update, Touched: l.begun, Deferred: l.deferred}, true, nil
}

func (l *fakeLog) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk\nis swapped"}, l.paused, nil
}

func TestWhoFollowsHearsOnceWhatTheRequestWaitsFor(t *testing.T) {
	log := &fakeLog{begun: true, paused: true, holder: "process 1"} // operations are under way still
	teller := Teller{Log: log, Request: 7, Full: func() string { return "" }}
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
		holder   string
		paused   bool
		deferred []reconfigure.Deferral
		want     []string
	}{
		{"process 1", true, nil, nil},
		{"", true, nil, []string{"request 7 waits: paused by alice since 2026-01-31T12:00:00Z: a disk is swapped"}},
		{"", false, nil, []string{"the pause has ended"}},
		{"process 2", false, nil, nil},
		{"process 2", false, []reconfigure.Deferral{{Kind: reconfigure.CannotPlan, Reason: "no\ncloud"}}, []string{
			"request 7 cannot be planned now, and is tried again: no cloud",
		}},
		{"", false, []reconfigure.Deferral{{Node: "a", Kind: reconfigure.SlurmUnreachable, Reason: "no route"}}, []string{
			"request 7 waits for Slurm, and is tried again: no route",
		}},
		{
			"", false, []reconfigure.Deferral{{Node: "a", Kind: reconfigure.WaitsForJobs}},
			[]string{"request 7 waits for jobs on a"},
		},
		{"", false, nil, nil},
	} {
		log.holder, log.paused, log.deferred = step.holder, step.paused, step.deferred
		if diff := cmp.Diff(step.want, look()); diff != "" {
			t.Errorf("holder %q, paused %t (-want +got):\n%s", step.holder, step.paused, diff)
		}
	}
}
