// Package batcher is group commit: many goroutines call at once, a tool runs once for all calls that wait, and each
// caller gets its own result as soon as that is known. The package knows nothing about the tool.
//
// The idea is that of bbolt's DB.Batch, with results that come one by one.
package batcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrUnfinished is the error of a call whose run has ended without a result for it.
var ErrUnfinished = errors.New("the run ended without a result")

// Config says when a run begins and how large it is.
type Config struct {
	// Quiet is the time without a new call after which a run begins; 0: it begins at once.
	Quiet time.Duration
	// Longest bounds that wait, counted from the first call that waits.
	Longest time.Duration
	// Expected reports whether a call may come soon that belongs to those that wait. If not, a run begins after a moment
	// instead of Quiet. Nil: always.
	Expected func() bool
	// Most is the largest number of calls in one run; 0: all that wait.
	Most int
	// Under counts the runs in progress or about to begin, including those whose callers have left. It MUST count the
	// callers of Do too. Nil: nobody waits for runs.
	Under *sync.WaitGroup
}

// Batcher collects calls into runs. One run is in progress at a time, unless it yields.
type Batcher[In, Out any] struct {
	config Config
	run    func(*Run[In, Out])

	lock    sync.Mutex
	waiting []*Call[In, Out]
	running bool
	first   time.Time     // the time of the oldest waiting call
	last    time.Time     // the time of the newest one
	came    chan struct{} // closed when a call comes
}

// New returns a Batcher. It calls the function run for each run, in a new goroutine, one at a time unless one yields;
// when run returns, calls without a result get ErrUnfinished.
func New[In, Out any](config Config, run func(*Run[In, Out])) *Batcher[In, Out] {
	if config.Under == nil {
		config.Under = &sync.WaitGroup{}
	}
	return &Batcher[In, Out]{config: config, run: run, came: make(chan struct{})}
}

// Call is one call that waits for its result.
type Call[In, Out any] struct {
	In  In
	ctx context.Context

	once sync.Once
	done chan struct{}
	out  Out
	err  error
}

// Context ends when the caller no longer waits.
func (c *Call[In, Out]) Context() context.Context { return c.ctx }

// Finish gives the caller its result. Only the first result counts.
func (c *Call[In, Out]) Finish(out Out, err error) {
	c.once.Do(func() {
		c.out, c.err = out, err
		close(c.done)
	})
}

// Finished reports whether the call has its result, or its caller no longer waits.
func (c *Call[In, Out]) Finished() bool {
	select {
	case <-c.done:
		return true
	case <-c.ctx.Done():
		return true
	default:
		return false
	}
}

// Run is one run of the tool.
type Run[In, Out any] struct {
	Calls   []*Call[In, Out]
	batcher *Batcher[In, Out]

	yield   sync.Once
	yielded chan struct{} // closed when the next run may begin
}

// Awaited is closed when another call waits for the next run.
func (r *Run[In, Out]) Awaited() <-chan struct{} { return r.batcher.awaited() }

// Yield lets the next run begin beside this one.
func (r *Run[In, Out]) Yield() { r.yield.Do(func() { close(r.yielded) }) }

// More adds all waiting calls to this run, even beyond Config.Most.
func (r *Run[In, Out]) More() {
	b := r.batcher
	b.lock.Lock()
	defer b.lock.Unlock()
	r.Calls = append(r.Calls, b.waiting...)
	b.waiting = nil
}

// Limit leaves the first calls in this run, at most so many, and lets the others wait for the next one.
func (r *Run[In, Out]) Limit(most int) {
	if len(r.Calls) <= most {
		return
	}
	b := r.batcher
	b.lock.Lock()
	defer b.lock.Unlock()
	b.waiting = slices.Concat(r.Calls[most:], b.waiting)
	r.Calls = slices.Clip(r.Calls[:most])
	close(b.came)
	b.came = make(chan struct{})
}

// Detach takes a call out of this run. The end of the run does not finish it; another goroutine must.
func (r *Run[In, Out]) Detach(call *Call[In, Out]) {
	r.Calls = slices.DeleteFunc(r.Calls, func(other *Call[In, Out]) bool { return other == call })
}

// Do waits for the result of in. If ctx ends first, it returns the cause. A call that is already in a run continues
// without its caller.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	call := &Call[In, Out]{In: in, ctx: ctx, done: make(chan struct{})}
	b.add(call)
	select {
	case <-call.done:
		return call.result()
	case <-ctx.Done():
	}
	b.remove(call)
	select {
	case <-call.done: // the result came at the same moment
		return call.result()
	default:
		var none Out
		return none, context.Cause(ctx)
	}
}

// result returns what the caller gets. A run that is cancelled because its callers have left may also finish their
// calls; the error is then the cause for which this caller left.
func (c *Call[In, Out]) result() (Out, error) {
	if c.ctx.Err() != nil && errors.Is(c.err, context.Canceled) {
		return c.out, context.Cause(c.ctx)
	}
	return c.out, c.err
}

func (b *Batcher[In, Out]) add(call *Call[In, Out]) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.waiting) == 0 {
		b.first = time.Now()
	}
	b.last = time.Now()
	b.waiting = append(b.waiting, call)
	close(b.came)
	b.came = make(chan struct{})
	if !b.running {
		b.running = true
		b.config.Under.Go(b.loop)
	}
}

func (b *Batcher[In, Out]) remove(call *Call[In, Out]) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for i, other := range b.waiting {
		if other == call {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			return
		}
	}
}

// awaited returns a channel that is closed as soon as a call waits.
func (b *Batcher[In, Out]) awaited() <-chan struct{} {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.waiting) > 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return b.came
}

// loop makes runs until no call waits.
func (b *Batcher[In, Out]) loop() {
	for {
		b.settle()
		calls := b.take()
		if calls == nil {
			return
		}
		if len(calls) > 0 {
			b.runOf(calls)
		}
	}
}

// runOf runs some calls, and returns when the run has ended or yielded.
func (b *Batcher[In, Out]) runOf(calls []*Call[In, Out]) {
	r := &Run[In, Out]{Calls: calls, batcher: b, yielded: make(chan struct{})}
	ended := make(chan struct{})
	b.config.Under.Go(func() {
		defer close(ended)
		b.run(r)
		for _, c := range r.Calls {
			var none Out
			c.Finish(none, ErrUnfinished)
		}
	})
	select {
	case <-ended:
	case <-r.yielded:
	}
}

// moment is the time in which goroutines that begin together make their calls.
const moment = 10 * time.Millisecond

// settle waits until no call has come for the quiet time, if any call waits.
func (b *Batcher[In, Out]) settle() {
	for {
		quiet := b.config.Quiet
		if b.config.Expected != nil && !b.config.Expected() {
			quiet = min(quiet, moment)
		}
		b.lock.Lock()
		came, rest := b.came, min(time.Until(b.last.Add(quiet)), time.Until(b.first.Add(b.config.Longest)))
		full := b.config.Most > 0 && len(b.waiting) >= b.config.Most
		if len(b.waiting) == 0 {
			rest = 0
		}
		b.lock.Unlock()
		if rest <= 0 || full {
			return
		}
		select {
		case <-came:
		case <-time.After(rest):
			return
		}
	}
}

// take returns the calls of the next run, without those whose caller no longer waits; nil ends the loop.
func (b *Batcher[In, Out]) take() []*Call[In, Out] {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.waiting) == 0 {
		b.running = false
		return nil
	}
	n := len(b.waiting)
	if b.config.Most > 0 {
		n = min(n, b.config.Most)
	}
	calls := make([]*Call[In, Out], 0, n)
	for _, c := range b.waiting[:n] {
		if c.ctx.Err() == nil {
			calls = append(calls, c)
		}
	}
	b.waiting = append([]*Call[In, Out](nil), b.waiting[n:]...)
	b.first = time.Now()
	return calls
}
