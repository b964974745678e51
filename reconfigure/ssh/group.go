package ssh

import (
	"context"
	"sync"
)

// group does something for many callers at once. One run is in progress at a time; the next run serves all callers
// that came meanwhile.
type group[In, Out any] struct {
	do   func(context.Context, []In) (Out, error)
	lock sync.Mutex
	busy bool
	next *run[In, Out] // collects the callers of the next run; nil: nobody waits
}

// run is one run, for all callers that wait for it.
type run[In, Out any] struct {
	in   []In
	done chan struct{}
	out  Out
	err  error
}

// join returns the result of the run that included in. If ctx ends, only this caller returns early; the run goes on
// for the others.
func (g *group[In, Out]) join(ctx context.Context, in In) (out Out, err error) {
	g.lock.Lock()
	if g.next == nil {
		g.next = &run[In, Out]{done: make(chan struct{})}
	}
	mine := g.next
	mine.in = append(mine.in, in)
	if !g.busy {
		g.busy = true
		go g.work(context.WithoutCancel(ctx))
	}
	g.lock.Unlock()
	select {
	case <-mine.done:
		return mine.out, mine.err
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// work makes runs until nobody waits.
func (g *group[In, Out]) work(ctx context.Context) {
	for {
		g.lock.Lock()
		now := g.next
		if g.next = nil; now == nil {
			g.busy = false
			g.lock.Unlock()
			return
		}
		g.lock.Unlock()
		now.out, now.err = g.do(ctx, now.in)
		close(now.done)
	}
}
