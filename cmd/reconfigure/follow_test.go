package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fakeLog is what a reviver looks at.
type fakeLog struct {
	leader string
	held   bool
	paused bool
	asked  int
}

func (l *fakeLog) Leader(context.Context) string {
	l.asked++
	return l.leader
}

func (l *fakeLog) Request(_ context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return reconfigure.Request{ID: id, Held: l.held}, true, nil
}

func (l *fakeLog) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk\nis swapped"}, l.paused, nil
}

func TestReviver(t *testing.T) {
	for name, tc := range map[string]struct {
		log            fakeLog
		asked, started int // within two minutes
	}{
		"a worker leads":                        {fakeLog{leader: "process 1"}, 24, 0},
		"nobody does":                           {fakeLog{}, 24, 24},
		"nobody does, and the request is held":  {fakeLog{held: true}, 2, 2},
		"nobody does, and nothing is begun":     {fakeLog{paused: true}, 24, 0},
		"it is held, and somebody else is busy": {fakeLog{held: true, leader: "process 1"}, 24, 0},
	} {
		t.Run(name, func(t *testing.T) {
			started := 0
			v := reviver{log: &tc.log, request: 1, start: func() error { started++; return nil }, next: noon}
			for at := -time.Minute; at < 2*time.Minute; at += time.Second {
				if err := v.ifNeeded(t.Context(), noon.Add(at)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.log.asked != tc.asked || started != tc.started {
				t.Errorf("looked %d times and started %d workers, want %d and %d", tc.log.asked, started, tc.asked, tc.started)
			}
		})
	}
}

func TestWhoLeavesHearsWhatBecomesOfTheRequest(t *testing.T) {
	err := goesOn(t.Context(), reconfigure.Request{ID: 7}, errors.New("the disk is full"))
	if err == nil || err.Error() != "request 7 is on disk and waits for a worker: the disk is full" {
		t.Errorf("error %v", err)
	}
}

func TestWhoFollowsHearsOfAPauseOnce(t *testing.T) {
	log := &fakeLog{paused: true, leader: "process 1"} // a batch is at work still, perhaps the request's own
	teller := pauseTeller{log: log, request: 7}
	now := noon
	look := func() (said []string) {
		t.Helper()
		for range 3 {
			now = now.Add(2 * time.Second)
			events, err := teller.look(t.Context(), now)
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
		leader string
		paused bool
		want   []string
	}{
		{"process 1", true, nil},
		{"", true, []string{"request 7 waits: paused by alice since 2026-01-31T12:00:00Z: a disk is swapped"}},
		{"", false, []string{"the pause has ended"}},
		{"process 2", false, nil},
	} {
		log.leader, log.paused = step.leader, step.paused
		if diff := cmp.Diff(step.want, look()); diff != "" {
			t.Errorf("leader %q, paused %t (-want +got):\n%s", step.leader, step.paused, diff)
		}
	}
}
