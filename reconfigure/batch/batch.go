// Package batch is group commit for requests: many callers write down what they wish, one worker takes all that waits, has it planned and carried out
// once, and each caller gets its own outcome.
package batch

import (
	"context"
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
	// Lead answers false while another process leads. The lead MUST end with the process that holds it.
	Lead(ctx context.Context) (release func() error, ok bool, err error)
}

// Carrier carries out the requests of one batch and gives an outcome for each.
type Carrier interface {
	Carry(ctx context.Context, batch int64, requests []reconfigure.Request) []reconfigure.Outcome
}

// Work leads, and carries out batches until no request waits. It returns at once where another process leads: that one looks for new requests after it
// has given up the lead, so that none which was written down before is overlooked.
func Work(ctx context.Context, log Log, carrier Carrier) error {
	for {
		release, leads, err := log.Lead(ctx)
		if err != nil || !leads {
			return err
		}
		err = drain(ctx, log, carrier)
		if e := release(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		waiting, err := log.Pending(ctx)
		if err != nil || len(waiting) == 0 {
			return err
		}
	}
}

func drain(ctx context.Context, log Log, carrier Carrier) error {
	for ctx.Err() == nil {
		waiting, err := log.Pending(ctx)
		if err != nil || len(waiting) == 0 {
			return err
		}
		requests := Gather(waiting)
		ids := make([]reconfigure.RequestID, len(requests))
		for i, r := range requests {
			ids[i] = r.ID
		}
		number, err := log.Begin(ctx, ids)
		if err != nil {
			return err
		}
		for _, outcome := range carrier.Carry(ctx, number, requests) {
			outcome.Finished = time.Now()
			if err := log.Finish(context.WithoutCancel(ctx), outcome); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
