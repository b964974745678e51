package main

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestReviverLeavesAWorkerThatLeadsAlone(t *testing.T) {
	asked := 0
	v := reviver{site: site{dir: filepath.Join(t.TempDir(), "nowhere")}, leader: func() string { asked++; return "process 1" }, next: noon}
	for _, at := range []time.Duration{-time.Second, 0, time.Second, patience, 2*patience - time.Second} {
		if err := v.ifNeeded(noon.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("looked %d times, want 2: at once, and after the pause", asked)
	}
}

func TestReviverTellsWhyNoWorkerCanWork(t *testing.T) {
	v := reviver{site: site{dir: t.TempDir()}, leader: func() string { return "" }, next: noon}
	if err := v.ifNeeded(noon); err == nil {
		t.Error("a worker was started where the declaration is gone")
	}
}

func TestWhoLeavesHearsWhatBecomesOfTheRequest(t *testing.T) {
	err := goesOn(t.Context(), reconfigure.Request{ID: 7}, errors.New("the disk is full"))
	if err == nil || err.Error() != "request 7 is on disk and waits for a worker: the disk is full" {
		t.Errorf("error %v", err)
	}
}
