package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/journaltest"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
)

func TestJournalConforms(t *testing.T) {
	journaltest.Test(t, func(testing.TB) journaltest.Setup {
		j := memory.New()
		return journaltest.Setup{
			Open: func(testing.TB) journaltest.Journal { return j.Open() },
			Lose: func(testing.TB) { j.LoseLease() },
		}
	})
}

func TestLossOfTheLeaseEndsWhatIsDoneUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		release, ok, err := j.Acquire(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		held, end := j.WhileHeld(t.Context())
		defer end()
		started := time.Now()
		go func() {
			time.Sleep(time.Hour)
			j.LoseLease()
		}()
		<-held.Done()
		if cause := context.Cause(held); !errors.Is(cause, reconfigure.ErrLeaseLost) || time.Since(started) != time.Hour {
			t.Errorf("ended with %v after %s", cause, time.Since(started))
		}
		if err := release(); !errors.Is(err, reconfigure.ErrLeaseLost) {
			t.Errorf("released a lost lease: %v", err)
		}
	})
}

func TestACrashFreesTheLeaseAndLeavesTheRest(t *testing.T) {
	j := memory.New()
	if _, ok, err := j.Acquire(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy})
	if err != nil {
		t.Fatal(err)
	}
	next := j.Open()
	if _, ok, err := next.Acquire(t.Context()); ok || err != nil {
		t.Fatalf("two have the lease: %v, %v", ok, err)
	}
	j.Crash()
	if err := j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}); err == nil {
		t.Error("a dead process has finished a request")
	}
	if _, ok, err := next.Acquire(t.Context()); !ok || err != nil {
		t.Fatalf("the lease is not free: %v, %v", ok, err)
	}
	if pending, err := next.Pending(t.Context()); len(pending) != 1 || err != nil {
		t.Errorf("pending %+v, %v", pending, err)
	}
}

func TestAJournalThatFailsChangesNothing(t *testing.T) {
	j, full := memory.New(), errors.New("the disk is full")
	j.Fail(full)
	if _, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	j.Fail(nil)
	if pending, err := j.Pending(t.Context()); len(pending) != 0 || err != nil {
		t.Errorf("pending %+v, %v", pending, err)
	}
}
