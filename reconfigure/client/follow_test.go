package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fakeLog is the journal that a reviver reads.
type fakeLog struct {
	holder   string
	deferred int
	paused   bool
	asked    int
}

func (l *fakeLog) Holder(context.Context) string {
	l.asked++
	return l.holder
}

func (l *fakeLog) Request(_ context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return reconfigure.Request{ID: id, Deferred: make([]reconfigure.Deferral, l.deferred)}, true, nil
}

func (l *fakeLog) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{}, l.paused, nil
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestReviver(t *testing.T) {
	for name, tc := range map[string]struct {
		log            fakeLog
		asked, started int // within two minutes
	}{
		"a worker holds the lease":               {fakeLog{holder: "process 1"}, 24, 0},
		"none does":                              {fakeLog{}, 24, 24},
		"none does, and the request is deferred": {fakeLog{deferred: 1}, 2, 2},
		"none does, and nothing begins":          {fakeLog{paused: true}, 24, 0},
		"it is deferred, and a worker is busy":   {fakeLog{deferred: 1, holder: "process 1"}, 24, 0},
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
				t.Errorf(
					"looked %d times and started %d workers, want %d and %d",
					tc.log.asked,
					started,
					tc.asked,
					tc.started,
				)
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
