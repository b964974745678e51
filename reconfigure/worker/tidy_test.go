package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// aged returns a journal with one request that ended at that age, and a tidier of it.
func aged(t *testing.T, keep, age time.Duration) (*journal.Journal, tidier) {
	t.Helper()
	dir := t.TempDir()
	log, err := journal.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	end(t, log, age)
	return log, tidier{
		log:   log,
		stamp: filepath.Join(dir, "state", "pruned"),
		keep:  keep,
		out:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		rest:  func(time.Time, time.Time) error { return nil },
	}
}

func end(t *testing.T, log *journal.Journal, age time.Duration) {
	t.Helper()
	r, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("node03")})
	if err == nil {
		_, err = log.Begin(t.Context(), []reconfigure.RequestID{r.ID})
	}
	if err == nil {
		err = log.Finish(
			t.Context(),
			reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone, Finished: time.Now().Add(-age)},
		)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, log *journal.Journal) int {
	t.Helper()
	requests, err := log.Requests(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	return len(requests)
}

func TestWhatIsOldGoesOnceADay(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		keep, age time.Duration
		kept      int
	}{
		"older than declared": {10 * day, 11 * day, 0},
		"not that old":        {10 * day, 9 * day, 1},
		"everything is kept":  {0, 1000 * day, 1},
		"only the older ones": {day, day + time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log, tidy := aged(t, tc.keep, tc.age)
			tidy.ifDue(t.Context(), time.Now())
			if got := kept(t, log); got != tc.kept {
				t.Fatalf("%d requests are kept, want %d", got, tc.kept)
			}
			if tc.kept > 0 {
				return
			}
			end(t, log, tc.age)
			tidy.ifDue(t.Context(), time.Now().Add(day-time.Minute))
			if got := kept(t, log); got != 1 {
				t.Errorf("%d requests are kept on the same day, want 1", got)
			}
			tidy.ifDue(t.Context(), time.Now().Add(day+time.Minute))
			if got := kept(t, log); got != 0 {
				t.Errorf("%d requests are kept on the next day, want 0", got)
			}
		})
	}
}

func TestTidyingIsDoneAfterWorkThatFailed(t *testing.T) {
	log, tidy := aged(t, time.Hour, 2*time.Hour)
	failed := errors.New("the worker has failed")
	if err := tidy.during(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want the work's own", err)
	}
	if got := kept(t, log); got != 0 {
		t.Errorf("%d requests are kept after the work, want 0", got)
	}
}

// A worker holds the lease while it runs.
func TestAWorkerThatStaysTidiesToo(t *testing.T) {
	log, tidy := aged(t, time.Hour, 2*time.Hour)
	if _, leads, err := log.Acquire(t.Context()); err != nil || !leads {
		t.Fatalf("no lease: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		// the clock here begins in the year 2000, so entries that end today are never old
		tidy.keep = -100 * 365 * 24 * time.Hour
		err := tidy.during(t.Context(), func() error {
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := kept(t, log); got != 0 {
				t.Errorf("%d requests are kept after an hour, want 0", got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAJournalThatCannotBeTidiedFailsNothing(t *testing.T) {
	_, tidy := aged(t, time.Hour, 2*time.Hour)
	if err := os.WriteFile(filepath.Dir(tidy.stamp), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ran := false
	err := tidy.during(t.Context(), func() error { ran = true; return context.Cause(t.Context()) })
	if err != nil || !ran {
		t.Errorf("ran: %t, error %v", ran, err)
	}
}

func TestWhatIsNotInTheJournalGoesWithIt(t *testing.T) {
	_, tidy := aged(t, time.Hour, 2*time.Hour)
	var times []time.Time
	tidy.rest = func(now, before time.Time) error {
		times = append(times, now, before)
		return errors.New("the folder cannot be read")
	}
	now := time.Now()
	tidy.ifDue(t.Context(), now)
	if len(times) > 0 {
		t.Error("it prunes on the first day")
	}
	tomorrow := now.Add(25 * time.Hour)
	tidy.ifDue(t.Context(), tomorrow)
	if diff := cmp.Diff([]time.Time{tomorrow, tomorrow.Add(-time.Hour)}, times); diff != "" {
		t.Errorf("the cut-offs differ (-want +got):\n%s", diff)
	}
	tidy.keep, times = 0, nil
	tidy.ifDue(t.Context(), now.Add(50*time.Hour))
	if len(times) > 0 {
		t.Error("data that is kept forever was removed")
	}
}
