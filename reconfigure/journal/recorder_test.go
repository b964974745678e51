package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// eventStore is what a Recorder writes to. A write takes the time takes, and fails with fail if that is not nil.
type eventStore struct {
	mutex  sync.Mutex
	takes  time.Duration
	fail   error
	tries  int
	groups [][]string // the messages of each transaction
}

func (l *eventStore) write(ctx context.Context, events ...reconfigure.Event) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.tries++
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.fail != nil {
		return l.fail
	}
	l.groups = append(l.groups, messages(events))
	return nil
}

func (l *eventStore) failWith(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.fail = err
}

func (l *eventStore) written() [][]string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.groups)
}

func messages(events []reconfigure.Event) (texts []string) {
	for _, e := range events {
		texts = append(texts, e.Message)
	}
	return texts
}

// recorded runs a test with a Recorder. lost are the messages of the lost events.
func recorded(t *testing.T, l *eventStore, test func(t *testing.T, r *Recorder, lost *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		var lost []string
		r := NewRecorder(l.write, func(_ error,
			events []reconfigure.Event) {
			lost = append(lost, messages(events)...)
		})
		defer r.Close(t.Context())
		test(t, r, &lost)
	})
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestEventsAreWrittenInGroups(t *testing.T) {
	l := &eventStore{}
	recorded(t, l, func(t *testing.T, r *Recorder, _ *[]string) {
		for _, text := range []string{"a", "b", "c"} {
			r.Record(event(1, "n1", text))
			time.Sleep(groupEvery / 4)
		}
		r.Record(event(1, "n1", "d"), event(1, "n2", "e"))
		time.Sleep(groupEvery)
		synctest.Wait()
		same(t, "groups", [][]string{{"a", "b", "c", "d", "e"}}, l.written())
		r.Record(event(1, "n1", "f"))
		time.Sleep(groupEvery)
		synctest.Wait()
		same(t, "groups", [][]string{{"a", "b", "c", "d", "e"}, {"f"}}, l.written())
	})
}

func TestAFullGroupIsWrittenAtOnce(t *testing.T) {
	l := &eventStore{}
	recorded(t, l, func(t *testing.T, r *Recorder, _ *[]string) {
		r.Record(eventsOf(1, groupSize+1)...)
		synctest.Wait()
		if len(l.written()) != 1 || len(l.written()[0]) != groupSize {
			t.Errorf("%d groups at once", len(l.written()))
		}
		time.Sleep(groupEvery)
		synctest.Wait()
		if len(l.written()) != 2 || len(l.written()[1]) != 1 {
			t.Errorf("%d groups in the end", len(l.written()))
		}
	})
}

func TestRecordDoesNotWaitForTheStore(t *testing.T) {
	l := &eventStore{takes: time.Minute}
	recorded(t, l, func(t *testing.T, r *Recorder, _ *[]string) {
		began := time.Now()
		for i := range 10 {
			r.Record(event(1, "n1", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it waited for %s", took-10*time.Second)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "groups", [][]string{{"0"}, {"1", "2", "3", "4", "5", "6", "7", "8", "9"}}, l.written())
	})
}

func TestFlushReturnsWhenWhatCameBeforeIsDurable(t *testing.T) {
	l := &eventStore{takes: time.Second}
	recorded(t, l, func(t *testing.T, r *Recorder, _ *[]string) {
		for i := range 3 {
			r.Record(event(1, "n1", fmt.Sprint(i)))
			began := time.Now()
			if err := r.Flush(t.Context()); err != nil || len(l.written()) != i+1 {
				t.Errorf("%d groups after flush %d: %v", len(l.written()), i+1, err)
			}
			if took := time.Since(began); took != l.takes {
				t.Errorf("flush %d took %s", i+1, took)
			}
		}
		if err := r.Flush(t.Context()); err != nil || l.tries != 3 {
			t.Errorf("an empty flush: %v, %d writes", err, l.tries)
		}
		ctx, cancel := context.WithTimeout(t.Context(), l.takes/2)
		defer cancel()
		r.Record(event(1, "n1", "3"))
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it did not end with its context: %v", err)
		}
	})
}

func TestAFailedWriteIsRetried(t *testing.T) {
	l := &eventStore{fail: errors.New("the disk is full")}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"))
		time.Sleep(recordFor / 2)
		r.Record(event(1, "n1", "b"))
		l.failWith(nil)
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "groups", [][]string{{"a"}, {"b"}}, l.written())
		same(t, "lost", []string(nil), *lost)
		if l.tries < 4 || l.tries > 100 {
			t.Errorf("%d attempts in %s", l.tries, recordFor/2)
		}
	})
}

func TestEventsOutliveAJournalThatFails(t *testing.T) {
	l := &eventStore{fail: errors.New("the disk is full")}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		began := time.Now()
		r.Record(event(1, "n1", "a"), event(1, "n1", "b"))
		if err := r.Flush(t.Context()); !errors.Is(err, l.fail) {
			t.Errorf("the flush: %v", err)
		}
		if took := time.Since(began); took < recordFor/2 || took > 2*recordFor {
			t.Errorf("it waited for %s", took)
		}
		time.Sleep(keepFor - 3*recordFor)
		r.Record(event(1, "n1", "c"))
		l.failWith(nil)
		if err := r.Flush(t.Context()); err != nil {
			t.Errorf("the next flush: %v", err)
		}
		same(t, "groups", []string{"a", "b", "c"}, slices.Concat(l.written()...))
		same(t, "lost", []string(nil), *lost)
	})
}

func TestEventsThatAreKeptTooLongAreCounted(t *testing.T) {
	l := &eventStore{fail: errors.New("the disk is full")}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"), event(1, "n1", "b"))
		time.Sleep(keepFor + 2*recordFor)
		synctest.Wait()
		same(t, "lost", []string{"a", "b"}, *lost)
		l.failWith(nil)
		r.Record(event(1, "n1", "c"))
		_ = r.Flush(t.Context()) // reports the loss before this
		time.Sleep(time.Second)
		const missing = "2 events from here on are missing: the journal failed for too long"
		same(t, "groups", [][]string{{"c"}, {missing}}, l.written())
	})
}

func TestNotMoreEventsAreKeptThanIsSaid(t *testing.T) {
	l := &eventStore{fail: errors.New("the disk is full")}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(eventsOf(1, keepMost)...)
		time.Sleep(2 * recordFor)
		r.Record(event(1, "n1", "x"), event(1, "n1", "y"))
		r.Record(event(1, "n1", "z"))
		same(t, "lost", []string{"x", "y", "z"}, *lost)
		l.failWith(nil)
		for range 2 {
			if err := r.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
		written := slices.Concat(l.written()...)
		const missing = "3 events from here on are missing: the journal failed for too long"
		if len(written) != keepMost+1 || !slices.Contains(written, missing) {
			t.Errorf("%d events, the last is %q", len(written), written[len(written)-1])
		}
	})
}

// Nobody waits for a journal that fails while a worker ends.
func TestCloseDoesNotWaitForAJournalThatFails(t *testing.T) {
	l := &eventStore{fail: errors.New("the disk is full")}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"))
		began := time.Now()
		if err := r.Close(t.Context()); !errors.Is(err, l.fail) || time.Since(began) > 2*recordFor {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		same(t, "lost", []string{"a"}, *lost)
	})
}

func TestALostLeaseIsNotRetried(t *testing.T) {
	l := &eventStore{fail: fmt.Errorf("record: %w", ErrLeaseLost)}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"))
		if err := r.Flush(t.Context()); !errors.Is(err, ErrLeaseLost) || l.tries != 1 {
			t.Errorf("after %d attempts: %v", l.tries, err)
		}
		same(t, "lost", []string{"a"}, *lost)
	})
}

func TestCloseFlushes(t *testing.T) {
	l := &eventStore{takes: time.Second}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"))
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "groups", [][]string{{"a"}}, l.written())
		r.Record(event(1, "n1", "b"))
		same(t, "lost", []string{"b"}, *lost)
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	l := &eventStore{takes: time.Hour}
	recorded(t, l, func(t *testing.T, r *Recorder, lost *[]string) {
		r.Record(event(1, "n1", "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		same(t, "lost", []string{"a"}, *lost)
	})
}

func TestEventsHaveTheTimeOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Time
		r := NewRecorder(func(_ context.Context, events ...reconfigure.Event) error {
			for _, e := range events {
				got = append(got, e.Time)
			}
			return nil
		}, nil)
		want := time.Now().UTC()
		r.Record(event(1, "n1", "a"))
		time.Sleep(time.Minute)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "times", []time.Time{want}, got)
	})
}

func TestManyGoroutinesRecord(t *testing.T) {
	j := open(t, t.TempDir())
	request := submit(t, j, "n0", "n1", "n2", "n3")
	plan := begin(t, j, request)
	r := NewRecorder(j.Record, func(err error, _ []reconfigure.Event) { t.Error(err) })
	const each = 500
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			for i := range each {
				r.Record(event(plan, fmt.Sprint("n", g), fmt.Sprint(i)))
			}
		})
	}
	wait.Wait()
	noError(t, r.Close(t.Context()))
	next := map[string]int{}
	for _, e := range must(j.Events(t.Context(), request.ID, 0))(t) {
		if e.Message != fmt.Sprint(next[e.Node]) {
			t.Fatalf("event %s of %s where %d is next", e.Message, e.Node, next[e.Node])
		}
		next[e.Node]++
	}
	same(t, "events", map[string]int{"n0": each, "n1": each, "n2": each, "n3": each}, next)
}
