package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const (
	// groupEvery is the time during which events are collected into one group.
	groupEvery = 100 * time.Millisecond
	// groupSize is the largest number of events in one transaction. A group of this size is written at once.
	groupSize = 1000
	// recordFor is how long a Flush waits while the journal fails.
	recordFor = 30 * time.Second
	// keepFor is how long events are kept while the journal fails: as long as a worker goes on.
	keepFor = 10 * time.Minute
	// keepMost is the maximum number of events that are kept, about 50 MB.
	keepMost = 100_000
)

// errTooMany is the reason for dropping events.
var errTooMany = fmt.Errorf("the journal fails, and %d events wait for it", keepMost)

// Recorder writes events in groups, in another goroutine: one transaction for the events of 100 ms. Its methods may
// be called from several goroutines.
type Recorder struct {
	write func(ctx context.Context, events ...reconfigure.Event) error
	lost  func(err error, events []reconfigure.Event)
	ctx   context.Context // the context of the writes
	stop  context.CancelFunc
	wake  chan struct{} // has room for one signal

	mutex   sync.Mutex
	waiting []reconfigure.Event
	came    int64             // the number of events recorded so far
	settled int64             // the number of them that are durable or lost
	failed  error             // the error of the last lost group
	since   time.Time         // the time since which writes fail
	dropped int               // the number of dropped events
	first   reconfigure.Event // the first dropped event
	flushes []flush
	closed  bool
	ended   chan struct{} // closed with the goroutine
}

// flush is a call of Flush that waits until this many events are settled.
type flush struct {
	until int64
	done  chan error
}

// NewRecorder starts a Recorder. write is the Record of a journal. A write that fails is retried for 10 minutes, and
// at most 100,000 events wait meanwhile; then lost gets the error and events that are not written, and the Recorder
// goes on with the next ones. When the journal works again, an event says how many were dropped. ErrLeaseLost is not
// retried; a retry after ErrUncertain may write events twice. Close ends the Recorder.
func NewRecorder(
	write func(ctx context.Context, events ...reconfigure.Event) error,
	lost func(err error, events []reconfigure.Event),
) *Recorder {
	ctx, stop := context.WithCancel(context.Background())
	r := &Recorder{
		write: write, lost: lost, ctx: ctx, stop: stop, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go r.run()
	return r
}

// Record queues events and returns at once. An event without a time gets the time of now. They are written in the order
// of the calls. Events after Close are lost.
func (r *Recorder) Record(events ...reconfigure.Event) {
	if len(events) == 0 {
		return
	}
	stamped := make([]reconfigure.Event, len(events))
	for i, e := range events {
		e.Time = stamp(e.Time)
		stamped[i] = e
	}
	r.mutex.Lock()
	if r.closed {
		r.mutex.Unlock()
		r.lost(errors.New("the recorder is closed"), stamped)
		return
	}
	if r.came-r.settled+int64(len(stamped)) > keepMost {
		r.drop(stamped)
		r.mutex.Unlock()
		r.lost(errTooMany, stamped)
		return
	}
	defer r.mutex.Unlock()
	r.came += int64(len(stamped))
	r.waiting = append(r.waiting, stamped...)
	r.notify()
}

// drop records that events will not be written. The caller has locked the mutex.
func (r *Recorder) drop(events []reconfigure.Event) {
	if r.dropped == 0 {
		r.first = events[0]
	}
	r.dropped += len(events)
}

// Flush writes the queued events at once. It returns when all events of earlier calls are durable or lost, with the
// error of the lost ones, or when ctx ends. If the journal fails for 30 seconds, it returns that error, and the
// events stay queued.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mutex.Lock()
	if r.settled == r.came {
		defer r.mutex.Unlock()
		return r.takeFailure()
	}
	f := flush{r.came, make(chan error, 1)}
	r.flushes = append(r.flushes, f)
	r.notify()
	r.mutex.Unlock()
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close flushes and ends the Recorder. If ctx ends first, the unwritten events are lost.
func (r *Recorder) Close(ctx context.Context) error {
	r.mutex.Lock()
	r.closed = true
	r.notify()
	r.mutex.Unlock()
	err := r.Flush(ctx)
	r.stop()
	<-r.ended
	return err
}

// notify wakes the goroutine. The caller has locked the mutex.
func (r *Recorder) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Recorder) run() {
	defer close(r.ended)
	for r.gather() {
		r.writeGroup()
	}
}

// gather waits for events, and then until the group is full, a flush begins, or groupEvery has passed. It returns
// false when the Recorder is stopped and no event is queued.
func (r *Recorder) gather() bool {
	for !r.ready(1) {
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			return r.ready(1)
		}
	}
	enough := time.NewTimer(groupEvery)
	defer enough.Stop()
	for !r.ready(groupSize) && !r.hurried() {
		select {
		case <-r.wake:
		case <-enough.C:
			return true
		case <-r.ctx.Done():
			return true
		}
	}
	return true
}

func (r *Recorder) ready(events int) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.waiting) >= events
}

// hurried reports whether a caller waits for the queued events.
func (r *Recorder) hurried() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.closed || len(r.flushes) > 0
}

func (r *Recorder) writeGroup() {
	r.mutex.Lock()
	n := min(len(r.waiting), groupSize)
	group := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	r.mutex.Unlock()
	began := time.Now()
	err := r.try(group)
	if err != nil && r.requeue(group, began, err) {
		return
	}
	if err != nil {
		r.lost(err, group)
	}
	r.settle(int64(n), err)
	r.account(group, err)
}

// requeue puts back a group that could not be written, unless it is too late.
func (r *Recorder) requeue(group []reconfigure.Event, began time.Time, err error) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.since.IsZero() {
		r.since = began
	}
	if r.closed || r.ctx.Err() != nil || errors.Is(err, ErrLeaseLost) || time.Since(r.since) >= keepFor {
		return false
	}
	r.waiting = slices.Concat(group, r.waiting)
	for _, f := range r.flushes {
		f.done <- err
	}
	r.flushes = nil
	return true
}

// account records the result of a group, and after a successful write adds an event with the number of dropped ones.
func (r *Recorder) account(group []reconfigure.Event, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.since = time.Time{}
	switch {
	case err != nil:
		r.drop(group)
	case r.dropped > 0:
		note := reconfigure.Event{
			Time: r.first.Time, Plan: r.first.Plan, Phase: cmp.Or(r.first.Phase, reconfigure.PhaseReport),
			Level:   reconfigure.Note,
			Message: fmt.Sprintf("%d events from here on are missing: the journal failed for too long", r.dropped),
		}
		r.dropped = 0
		r.came++
		r.waiting = slices.Concat([]reconfigure.Event{note}, r.waiting)
		r.notify()
	}
}

func (r *Recorder) try(group []reconfigure.Event) error {
	_, err := backoff.Retry(r.ctx, func() (struct{}, error) {
		err := r.write(r.ctx, group...)
		if errors.Is(err, ErrLeaseLost) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(recordFor))
	return err
}

// settle counts events that are durable or lost, and ends the flushes that wait for them.
func (r *Recorder) settle(events int64, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.settled += events
	if err != nil {
		r.failed = err
	}
	for len(r.flushes) > 0 && r.flushes[0].until <= r.settled {
		r.flushes[0].done <- r.failed
		r.flushes = r.flushes[1:]
		if len(r.flushes) == 0 || r.flushes[0].until > r.settled {
			r.failed = nil // each error is returned once, to all flushes that waited for the group
		}
	}
}

// takeFailure returns the error that no Flush has returned yet. The caller has locked the mutex.
func (r *Recorder) takeFailure() error {
	err := r.failed
	r.failed = nil
	return err
}
