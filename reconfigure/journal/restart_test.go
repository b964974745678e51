package journal

import (
	"context"
	"errors"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// After a restart of the server the holder of the lease has lost it. It acquires the lease again, and finds what it
// wrote before.
func TestTheHolderSurvivesARestartOfTheServer(t *testing.T) {
	s := startServer(t)
	url := s.database(t)
	j, caller := open(t, url), open(t, url)
	r := submit(t, caller, "n1")
	release, ok, err := j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	plan := begin(t, j, r)
	leased, end := j.WhileHeld(t.Context())
	defer end()

	s.Stop(t)
	<-leased.Done()
	if cause := context.Cause(leased); !errors.Is(cause, ErrLeaseLost) {
		t.Errorf("its context ended with %v", cause)
	}
	if err := j.Record(t.Context(), event(plan, "n1", "while the server is stopped")); err == nil {
		t.Error("recorded without a server")
	}
	s.Restart(t)
	if err := j.Record(t.Context(), event(plan, "n1", "without the lease")); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("recorded with a lease that is lost: %v", err)
	}
	if err := release(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("released a lease that was lost: %v", err)
	}
	release, ok, err = j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if pending := must(j.Pending(t.Context()))(t); len(pending) != 1 || !pending[0].Touched {
		t.Errorf("pending %+v", pending)
	}
	noError(t, j.Record(t.Context(), event(plan, "n1", "after the restart")))
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	noError(t, release())
}
