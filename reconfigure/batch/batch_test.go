package batch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func submit(t *testing.T, j *journal.Journal, r reconfigure.Request) reconfigure.RequestID {
	t.Helper()
	r.Submitted = time.Now().Add(-time.Minute) // nobody waits for others that may arrive with it
	r, err := j.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// carrier finishes every request, and notes the batches. Before the first one it may do something.
type carrier struct {
	batches [][]reconfigure.RequestID
	numbers []int64
	first   func()
}

func (c *carrier) Carry(_ context.Context, number int64, requests []reconfigure.Request, _ func()) ([]reconfigure.Outcome, error) {
	if c.first != nil {
		c.first()
		c.first = nil
	}
	c.batches = append(c.batches, ids(requests))
	c.numbers = append(c.numbers, number)
	var outcomes []reconfigure.Outcome
	for _, r := range requests {
		outcomes = append(outcomes, reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone})
	}
	return outcomes, nil
}

// Stirs never: nothing is held here.
func (c *carrier) Stirs(context.Context, []reconfigure.Request) (bool, error) { return false, nil }

const poll = 10 * time.Second

func wantBatches(t *testing.T, c *carrier, want ...[]reconfigure.RequestID) {
	t.Helper()
	if diff := cmp.Diff(want, c.batches); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

func wantNothingWaits(t *testing.T, j *journal.Journal) {
	t.Helper()
	if waiting, err := j.Pending(t.Context()); err != nil || len(waiting) > 0 {
		t.Errorf("%v wait still, error %v", waiting, err)
	}
}

func TestWorkCarriesOutAllThatWaitsTogether(t *testing.T) {
	j := openJournal(t, t.TempDir())
	for _, node := range []string{"a", "b", "c"} {
		submit(t, j, request(0, reconfigure.Resume, node))
	}
	submit(t, j, request(0, reconfigure.Update, "a"))
	c := &carrier{}
	if err := batch.Work(t.Context(), j, c, poll); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, c, []reconfigure.RequestID{1, 2, 3}, []reconfigure.RequestID{4})
	if c.numbers[0] == c.numbers[1] {
		t.Errorf("both batches are number %d", c.numbers[0])
	}
	wantNothingWaits(t, j)
	o, ok, err := j.Outcome(t.Context(), 4)
	if err != nil || !ok || o.Code != reconfigure.CodeDone || o.Finished.IsZero() {
		t.Errorf("outcome %+v, %t, error %v", o, ok, err)
	}
}

func TestWorkTakesWhatComesWhileItWorks(t *testing.T) {
	j := openJournal(t, t.TempDir())
	submit(t, j, request(0, reconfigure.Resume, "a"))
	c := &carrier{first: func() { submit(t, j, request(0, reconfigure.Resume, "b")) }}
	if err := batch.Work(t.Context(), j, c, poll); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, c, []reconfigure.RequestID{1}, []reconfigure.RequestID{2})
}

func TestOneWorkerLeads(t *testing.T) {
	dir := t.TempDir()
	j, other := openJournal(t, dir), openJournal(t, dir)
	submit(t, j, request(0, reconfigure.Resume, "a"))
	idle := &carrier{}
	c := &carrier{first: func() {
		if err := batch.Work(t.Context(), other, idle, poll); err != nil {
			t.Error(err)
		}
	}}
	if err := batch.Work(t.Context(), j, c, poll); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, idle)
	wantBatches(t, c, []reconfigure.RequestID{1})
	release, ok, err := j.Lead(t.Context())
	if err != nil || !ok {
		t.Fatalf("the lead was not given up: %t, %v", ok, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// lateComer is a journal to which somebody writes in the moment between the last look and the end of the lead, when no worker of his own may lead.
type lateComer struct {
	*journal.Journal
	come func()
}

func (l *lateComer) Lead(ctx context.Context) (func() error, bool, error) {
	release, ok, err := l.Journal.Lead(ctx)
	return func() error {
		if come := l.come; come != nil {
			l.come = nil
			come()
		}
		return release()
	}, ok, err
}

func TestWhoComesBeforeTheLeadEndsIsNotOverlooked(t *testing.T) {
	dir := t.TempDir()
	j, other := openJournal(t, dir), openJournal(t, dir)
	submit(t, j, request(0, reconfigure.Resume, "a"))
	idle, c := &carrier{}, &carrier{}
	log := &lateComer{Journal: j, come: func() {
		submit(t, other, request(0, reconfigure.Resume, "b"))
		if err := batch.Work(t.Context(), other, idle, poll); err != nil {
			t.Error(err)
		}
	}}
	if err := batch.Work(t.Context(), log, c, poll); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, idle)
	wantBatches(t, c, []reconfigure.RequestID{1}, []reconfigure.RequestID{2})
	wantNothingWaits(t, j)
}

func TestWorkerThatIsToEndWritesTheOutcomesAndBeginsNothing(t *testing.T) {
	j := openJournal(t, t.TempDir())
	submit(t, j, request(0, reconfigure.Resume, "a"))
	submit(t, j, request(0, reconfigure.Update, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	c := &carrier{first: cancel}
	if err := batch.Work(ctx, j, c, poll); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	wantBatches(t, c, []reconfigure.RequestID{1})
	if _, ok, err := j.Outcome(t.Context(), 1); !ok || err != nil {
		t.Errorf("the outcome of what was carried out is not there: %v", err)
	}
}
