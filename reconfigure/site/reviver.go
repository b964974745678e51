package site

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

const (
	// workerStart is how long a request may be without a worker before one is started. A worker that was just started
	// takes a moment until it holds the lease.
	workerStart = 5 * time.Second
	// deferredStart is the same for a request that is deferred. A worker that is started for nothing ends at once.
	deferredStart = time.Minute
)

// Reviver starts workers for a request whose worker was killed.
type Reviver struct {
	log interface {
		Holder(ctx context.Context) string
		Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
		Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	}
	request reconfigure.RequestID
	start   func(context.Context) error
	next    time.Time
}

// Reviver returns one for a request for which a worker was started just now.
func (s Site) Reviver(log *journal.Journal, request reconfigure.RequestID) *Reviver {
	return &Reviver{log: log, request: request, start: s.StartWorker, next: time.Now().Add(workerStart)}
}

// IfNeeded starts a worker if none holds the lease, and none was started shortly before. The error is the journal's, or
// that of the start.
func (v *Reviver) IfNeeded(ctx context.Context, now time.Time) error {
	if now.Before(v.next) {
		return nil
	}
	v.next = now.Add(workerStart)
	if v.log.Holder(ctx) != "" {
		return nil
	}
	// A worker would end at once. Whoever ends the pause starts one; should that fail, it is done here then.
	if _, paused, err := v.log.Paused(ctx); err != nil || paused {
		return err
	}
	r, _, err := v.log.Request(ctx, v.request)
	if err != nil {
		return err
	}
	if r.IsDeferred() {
		v.next = now.Add(deferredStart)
	}
	return v.start(ctx)
}
