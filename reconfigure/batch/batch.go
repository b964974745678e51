// Package batch is group commit for requests: many callers write down what they wish, one worker takes all that waits, has it planned and carried out
// once, and each caller gets its own outcome.
package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Log is the part of the journal that a worker and its callers meet in.
type Log interface {
	// Pending is the requests without an outcome, oldest first.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// Begin opens a batch that carries the requests.
	Begin(ctx context.Context, ids []reconfigure.RequestID) (int64, error)
	// Finish writes a request's outcome; it MUST refuse a second one.
	Finish(ctx context.Context, o reconfigure.Outcome) error
	// Hold notes the verdicts that there are on a request that waits for jobs to end. It stays pending.
	Hold(ctx context.Context, o reconfigure.Outcome) error
	// Lead answers false while another process leads. The lead MUST end with the process that holds it.
	Lead(ctx context.Context) (release func() error, ok bool, err error)
	// Watch answers false while another process keeps an eye on the requests that are held. It hinders nobody, and MUST end with the process.
	Watch(ctx context.Context) (release func() error, ok bool, err error)
}

// Carrier carries out the requests of one batch and gives an outcome for each.
type Carrier interface {
	Carry(ctx context.Context, batch int64, requests []reconfigure.Request) []reconfigure.Outcome
	// Stirs tells whether a batch of nothing but held requests would do anything. It MUST NOT change anything.
	Stirs(ctx context.Context, held []reconfigure.Request) (bool, error)
}

// Work leads, and carries out batches until no request waits. It returns at once where another process leads: that one looks for new requests after it
// has given up the lead, so that none which was written down before is overlooked.
//
// Requests that wait for jobs to end may do so for a day. Nobody leads meanwhile: one process stays and looks, after each pause of poll, whether they can go
// on. When it dies, the next call's worker takes its place.
func Work(ctx context.Context, log Log, carrier Carrier, poll time.Duration) error {
	stirred := false
	for {
		release, leads, err := log.Lead(ctx)
		if err != nil || !leads {
			return err
		}
		err = work(ctx, log, carrier, stirred)
		if e := release(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		if stirred, err = watch(ctx, log, carrier, poll); err != nil || !stirred {
			return err
		}
	}
}

// watch returns true when there is something to do. It returns false when no request waits, and where another process watches.
func watch(ctx context.Context, log Log, carrier Carrier, poll time.Duration) (stirred bool, err error) {
	waiting, err := log.Pending(ctx)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	release, ok, err := log.Watch(ctx)
	if err != nil || !ok {
		// The one that watches may have looked before the newest request came.
		return err == nil && slices.ContainsFunc(Gather(waiting), fresh), err
	}
	defer func() { err = errors.Join(err, release()) }()
	for {
		waiting, err := log.Pending(ctx)
		if err != nil || len(waiting) == 0 {
			return false, err
		}
		requests := Gather(waiting)
		if slices.ContainsFunc(requests, fresh) {
			return true, nil
		}
		// What keeps it from looking now may be over at the next look.
		if stirs, err := carrier.Stirs(ctx, requests); err == nil && stirs {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(poll):
		}
	}
}

// fresh tells that a request was in no batch yet that would have held it.
func fresh(r reconfigure.Request) bool { return !r.Held }

// work carries out batches until only held requests are left. These go along with others; a batch of their own is worth its while when they have stirred.
func work(ctx context.Context, log Log, carrier Carrier, stirred bool) error {
	for ctx.Err() == nil {
		waiting, err := log.Pending(ctx)
		if err != nil || len(waiting) == 0 {
			return err
		}
		requests := Gather(waiting)
		if !stirred && !slices.ContainsFunc(requests, fresh) {
			return nil
		}
		stirred = false
		ids := make([]reconfigure.RequestID, len(requests))
		for i, r := range requests {
			ids[i] = r.ID
		}
		number, err := log.Begin(ctx, ids)
		if err != nil {
			return err
		}
		for _, outcome := range carrier.Carry(ctx, number, requests) {
			settle := log.Finish
			if len(outcome.Waiting) > 0 {
				settle = log.Hold
			}
			outcome.Finished = time.Now()
			if err := settle(context.WithoutCancel(ctx), outcome); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
