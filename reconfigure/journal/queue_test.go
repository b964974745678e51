package journal

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// asked compares no more of requests than what was asked for and what they wait for: not what batches have left.
var asked = cmpopts.IgnoreFields(reconfigure.Request{}, "Touched", "Passed")

func found(t *testing.T, j *Journal, id reconfigure.RequestID) reconfigure.Request {
	t.Helper()
	r, ok, err := j.Request(t.Context(), id)
	if !ok || err != nil {
		t.Fatalf("request %s: %v, %v", id, ok, err)
	}
	return r
}

func putOffCancelled(t *testing.T, j *Journal) {
	const away = "the cloud is away"
	putOff := func(r reconfigure.Request, waits ...reconfigure.Deferral) {
		t.Helper()
		noError(t, j.Hold(t.Context(), reconfigure.Outcome{Request: r.ID, Waiting: append(waits, reconfigure.Deferral{Request: r.ID, Reason: away})}))
	}
	again, carried, cut, drained := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n3"), submit(t, j, "n4")

	begin(t, j, again)
	if !found(t, j, again.ID).Touched {
		t.Error("what a batch carries is untouched")
	}
	putOff(again)
	begin(t, j, again) // and tried again
	putOff(again)

	begin(t, j, carried)
	putOff(carried)
	begin(t, j, carried) // at work

	begin(t, j, cut) // its worker died: nobody knows what it had done
	begin(t, j, cut)
	putOff(cut)

	begin(t, j, drained)
	wait := reconfigure.Deferral{Node: "n4", Request: drained.ID, Reason: "its jobs have to end first"}
	noError(t, j.Hold(t.Context(), reconfigure.Outcome{Request: drained.ID, Waiting: []reconfigure.Deferral{wait}}))
	begin(t, j, drained)
	putOff(drained, wait)

	for r, want := range map[*reconfigure.Request]error{&again: nil, &carried: ErrBegun, &cut: ErrBegun, &drained: ErrBegun} {
		if got := found(t, j, r.ID).Touched; got != (want != nil) {
			t.Errorf("request %s: touched %v", r.ID, got)
		}
		if err := j.Cancel(t.Context(), r.ID); !errors.Is(err, want) {
			t.Errorf("request %s: %v, not %v", r.ID, err, want)
		}
	}
	if o, ok, err := j.Outcome(t.Context(), again.ID); !ok || err != nil || o.Code != reconfigure.CodeCancelled {
		t.Errorf("its outcome: %+v, %v, %v", o, ok, err)
	}
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{again.ID}); !errors.Is(err, ErrFinished) {
		t.Errorf("begun after it was taken back: %v", err)
	}
}

func passedByBatches(t *testing.T, j *Journal) {
	first := submit(t, j, "n1")
	if !first.Passed.IsZero() || !found(t, j, first.ID).Passed.IsZero() {
		t.Error("passed before there was any batch")
	}
	before := time.Now()
	begin(t, j, first)
	after := time.Now()
	second := submit(t, j, "n2")
	if got := found(t, j, second.ID).Passed; !got.IsZero() {
		t.Errorf("passed at %s by a batch that had begun before", got)
	}
	begin(t, j, first)
	later := time.Now()
	begin(t, j, first)
	if got := found(t, j, first.ID).Passed; got.Before(before) || got.After(after) {
		t.Errorf("the first one is passed at %s, not between %s and %s", got, before, after)
	}
	if got := found(t, j, second.ID).Passed; got.Before(after) || got.After(later) {
		t.Errorf("the second one is passed at %s, not between %s and %s", got, after, later)
	}
}

func batchUndoes(t *testing.T, j *Journal) {
	undone, begun, suspend := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n1", "n2")
	begin(t, j, begun)
	by := func(r reconfigure.Request) reconfigure.Outcome {
		return reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeCancelled, Error: "request 3 undoes it"}
	}
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{suspend.ID}, by(undone), by(begun)); !errors.Is(err, ErrBegun) {
		t.Errorf("what had begun is undone: %v", err)
	}
	if _, ok, err := j.Outcome(t.Context(), undone.ID); ok || err != nil || found(t, j, suspend.ID).Touched {
		t.Errorf("half of the batch began: %v", err)
	}
	batch := must(j.Begin(t.Context(), []reconfigure.RequestID{suspend.ID}, by(undone)))(t)
	o, ok, err := j.Outcome(t.Context(), undone.ID)
	if !ok || err != nil || o.Code != reconfigure.CodeCancelled || o.Error != "request 3 undoes it" {
		t.Errorf("the outcome of what was undone: %+v, %v, %v", o, ok, err)
	}
	events := must(j.Events(t.Context(), suspend.ID, 0))(t)
	if len(events) != 1 || events[0].Batch != batch || events[0].Level != reconfigure.Note || !strings.Contains(events[0].Message, "request 1 is cancelled") {
		t.Errorf("whoever undoes is told %+v", events)
	}
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{suspend.ID}, by(undone)); !errors.Is(err, ErrFinished) {
		t.Errorf("undone twice: %v", err)
	}
}

func nothingBeginsInAPause(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	var (
		begun []time.Time
		wait  sync.WaitGroup
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait.Go(func() {
		for {
			_, err := j.Begin(ctx, []reconfigure.RequestID{r.ID})
			if errors.Is(err, ErrPaused) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			begun = append(begun, time.Now())
		}
	})
	eventually(t, "a batch has begun", func() bool { return found(t, j, r.ID).Touched })
	noError(t, j.Pause(t.Context(), "new cables", "anna"))
	batches := must(read(t.Context(), j, "count", scanCount, `SELECT count(*) FROM batches`))(t)[0]
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{r.ID}); !errors.Is(err, ErrPaused) {
		t.Errorf("begun during a pause: %v", err)
		stop()
	}
	wait.Wait()
	if len(begun) == 0 || batches != len(begun) {
		t.Errorf("%d batches had begun when the pause returned, %d at last", batches, len(begun))
	}
	noError(t, j.Continue(t.Context()))
	begin(t, j, r)
}

func scanCount(row scanner) (n int, err error) {
	err = row.Scan(&n)
	return n, err
}
