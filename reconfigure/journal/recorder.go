package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const (
	// groupEvery is the time in which events are gathered into one group.
	groupEvery = 100 * time.Millisecond
	// groupSize is the largest number of events in one transaction. A group of this size is written at once.
	groupSize = 1000
	// recordFor is how long the write of a group is retried.
	recordFor = 30 * time.Second
)

// Recorder writes events in groups, in a goroutine of its own: one transaction for the events of 100 ms. Its methods
// may be called from several goroutines.
type Recorder struct {
	write func(ctx context.Context, events ...reconfigure.Event) error
	lost  func(err error, events []reconfigure.Event)
	ctx   context.Context // of the writes
	stop  context.CancelFunc
	wake  chan struct{} // has room for one

	mutex   sync.Mutex
	waiting []reconfigure.Event
	came    int64 // how many events have come
	settled int64 // how many of them are durable or lost
	failed  error // of the last group that was lost
	flushes []flush
	closed  bool
	ended   chan struct{} // closed with the goroutine
}

// flush is a call of Flush that waits until so many events are settled.
type flush struct {
	until int64
	done  chan error
}

// NewRecorder starts a Recorder. write is the Record of a journal. A write that fails is retried for 30 seconds; then
// lost gets the error and the events that are not written, and the Recorder goes on with the next ones. ErrLeaseLost is
// not retried; a retry after ErrUncertain may write events twice. Close ends the Recorder.
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
	defer r.mutex.Unlock()
	r.came += int64(len(stamped))
	r.waiting = append(r.waiting, stamped...)
	r.notify()
}

// Flush has the queued events written at once. It returns when all events of earlier calls are durable or lost, with
// the error of the lost ones, or when ctx ends.
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

// Close flushes and ends the Recorder. When ctx ends first, the events that are not written yet are lost.
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

// gather waits for events, and then until the group is full, a flush begins, or groupEvery is over. It returns false
// when the Recorder is stopped and no event is queued.
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
	err := r.try(group)
	if err != nil {
		r.lost(err, group)
	}
	r.settle(int64(n), err)
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
