package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// follow shows what happens to a request until it has an outcome. Who ends it ends nothing but the view.
func follow(c *cli.Context, s site.Site, log *journal.Journal, r reconfigure.Request) (reconfigure.Outcome, error) {
	const look = 250 * time.Millisecond
	var (
		shown   = newView(c, r)
		revive  = s.Reviver(log, r.ID)
		waits   = status.Teller{Log: log, Request: r.ID}
		outcome reconfigure.Outcome
		ended   bool
		seen    int64
	)
	for {
		// The outcome comes first: what happened before it is in the journal by then.
		var err error
		if outcome, ended, err = log.Outcome(c.Context, r.ID); err != nil {
			return outcome, goesOn(c.Context, r, err)
		}
		events, err := log.Events(c.Context, r.ID, seen)
		if err != nil {
			return outcome, goesOn(c.Context, r, err)
		}
		if len(events) > 0 {
			seen = events[len(events)-1].ID
		}
		shown.Events(events)
		if ended {
			shown.End()
			return outcome, nil
		}
		news, err := waits.Look(c.Context, time.Now())
		if err != nil {
			return outcome, goesOn(c.Context, r, err)
		}
		shown.Events(news)
		if err := revive.IfNeeded(c.Context, time.Now()); err != nil {
			return outcome, goesOn(c.Context, r, err)
		}
		select {
		case <-c.Context.Done():
		case <-time.After(look):
		}
	}
}

// goesOn says of a caller that leaves, whatever made it leave, what becomes of its request.
func goesOn(ctx context.Context, r reconfigure.Request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf(
			"%w: request %s goes on without you; `reconfigure wait %s` follows it again",
			ctx.Err(),
			r.ID,
			r.ID,
		)
	}
	return fmt.Errorf("request %s is on disk and waits for a worker: %w", r.ID, err)
}
