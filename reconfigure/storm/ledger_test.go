package storm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// book is the journal, as far as workers, callers and these tests need it.
type book interface {
	batch.Log
	engine.HealthKeeper
	Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error)
	Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error)
	Events(ctx context.Context, id reconfigure.RequestID, after int64) ([]reconfigure.Event, error)
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
}

// ledger is a journal in memory: it keeps the real one's rules, and none of its time.
type ledger struct {
	lock           sync.Mutex
	requests       []reconfigure.Request
	outcomes       map[reconfigure.RequestID]reconfigure.Outcome
	carried        map[int64][]reconfigure.RequestID
	touched        map[reconfigure.RequestID]int64 // the first batch that may have done something for it
	events         []reconfigure.Event
	health         map[string]reconfigure.Health
	leads, watches bool
	again          int // how often a request was held for another try
}

func newLedger() *ledger {
	return &ledger{
		outcomes: map[reconfigure.RequestID]reconfigure.Outcome{}, carried: map[int64][]reconfigure.RequestID{},
		touched: map[reconfigure.RequestID]int64{}, health: map[string]reconfigure.Health{},
	}
}

func (l *ledger) Submit(_ context.Context, r reconfigure.Request) (reconfigure.Request, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	r.ID, r.Submitted = reconfigure.RequestID(len(l.requests)+1), time.Now()
	l.requests = append(l.requests, r)
	return r, nil
}

func (l *ledger) Pending(context.Context) ([]reconfigure.Request, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(l.requests), func(r reconfigure.Request) bool { return l.finished(r.ID) }), nil
}

func (l *ledger) finished(id reconfigure.RequestID) bool { _, ok := l.outcomes[id]; return ok }

func (l *ledger) Begin(_ context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	cannot := func(o reconfigure.Outcome) bool { return l.finished(o.Request) || l.requests[o.Request-1].Touched }
	if len(ids) == 0 || slices.ContainsFunc(ids, l.finished) || slices.ContainsFunc(undone, cannot) {
		return 0, fmt.Errorf("a batch cannot carry %v and undo %v", ids, undone)
	}
	number := int64(len(l.carried) + 1)
	l.carried[number] = slices.Clone(ids)
	for i := range l.requests {
		if l.requests[i].Passed.IsZero() {
			l.requests[i].Passed = time.Now()
		}
	}
	for _, id := range ids {
		if !l.requests[id-1].Touched {
			l.requests[id-1].Touched, l.touched[id] = true, number
		}
	}
	for _, o := range undone {
		l.outcomes[o.Request] = o
	}
	return number, nil
}

func (l *ledger) Finish(_ context.Context, o reconfigure.Outcome) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.finished(o.Request) {
		return fmt.Errorf("request %s has its outcome already", o.Request)
	}
	l.outcomes[o.Request] = o
	return nil
}

func (l *ledger) Hold(_ context.Context, o reconfigure.Outcome) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.finished(o.Request) {
		return fmt.Errorf("request %s has its outcome already", o.Request)
	}
	r := &l.requests[o.Request-1]
	for _, w := range o.Waiting {
		if was, _ := r.Wait(w.Node); w.Tries > was.Tries {
			l.again++
		}
	}
	r.Held, r.Settled, r.Waits = true, o.Verdicts, o.Waiting
	if unplanned := func(w reconfigure.Wait) bool { return w.Node == "" }; slices.ContainsFunc(o.Waiting, unplanned) && l.newest(o.Request) == l.touched[o.Request] {
		r.Touched = false
	}
	return nil
}

// newest is the newest batch that carries a request.
func (l *ledger) newest(id reconfigure.RequestID) (newest int64) {
	for number, ids := range l.carried {
		if slices.Contains(ids, id) {
			newest = max(newest, number)
		}
	}
	return newest
}

func (l *ledger) Record(ctx context.Context, events ...reconfigure.Event) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, e := range events {
		if l.carried[e.Batch] == nil {
			return errors.New("an event of no batch")
		}
		e.ID, e.Time = int64(len(l.events)+1), time.Now()
		l.events = append(l.events, e)
	}
	return ctx.Err()
}

func (l *ledger) triedAgain() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.again
}

func (l *ledger) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return maps.Clone(l.health), ctx.Err()
}

func (l *ledger) UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	enginetest.Update(l.health, group, update)
	return nil
}

func (l *ledger) Outcome(_ context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	o, ok := l.outcomes[id]
	return o, ok, nil
}

// Keep forgets: nobody looks into evidence here.
func (l *ledger) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, e := range evidence {
		if l.carried[e.Batch] == nil {
			return errors.New("evidence of no batch")
		}
	}
	return ctx.Err()
}

func (l *ledger) Events(_ context.Context, id reconfigure.RequestID, after int64) ([]reconfigure.Event, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	nodes := l.requests[id-1].Nodes
	return slices.DeleteFunc(slices.Clone(l.events), func(e reconfigure.Event) bool {
		return e.ID <= after || !slices.Contains(l.carried[e.Batch], id) || e.Node != "" && !nodes.Empty() && !nodes.Contains(e.Node)
	}), nil
}

func (l *ledger) Lead(context.Context) (func() error, bool, error)  { return l.take(&l.leads) }
func (l *ledger) Watch(context.Context) (func() error, bool, error) { return l.take(&l.watches) }

// Paused never: nobody pauses the worker here.
func (l *ledger) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{}, false, nil
}

// WhileLeading is for ever: a lock in memory is not lost.
func (l *ledger) WhileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (l *ledger) take(lock *bool) (func() error, bool, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if *lock {
		return nil, false, nil
	}
	*lock = true
	return func() error {
		l.lock.Lock()
		defer l.lock.Unlock()
		*lock = false
		return nil
	}, true, nil
}

func TestLedgerIsAHealthKeeper(t *testing.T) {
	enginetest.HealthKeeper(t, func(*testing.T) engine.HealthKeeper { return newLedger() })
}
