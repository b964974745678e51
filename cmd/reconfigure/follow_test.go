package main

import (
	"errors"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestWhoLeavesHearsWhatBecomesOfTheRequest(t *testing.T) {
	err := goesOn(t.Context(), reconfigure.Request{ID: 7}, errors.New("the disk is full"))
	if err == nil || err.Error() != "request 7 is on disk and waits for a worker: the disk is full" {
		t.Errorf("error %v", err)
	}
}
