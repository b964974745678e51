package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// follow shows what happens to a request until it has an outcome. Who ends it ends nothing but the view.
func follow(c *cli.Context, s site, log *journal.Journal, r reconfigure.Request) (reconfigure.Outcome, error) {
	const look = 250 * time.Millisecond
	var (
		shown   = newView(c, r)
		revive  = reviver{site: s, leader: log.Leader, next: time.Now().Add(patience)}
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
		shown.events(events)
		if ended {
			shown.end()
			return outcome, nil
		}
		if err := revive.ifNeeded(time.Now()); err != nil {
			return outcome, goesOn(c.Context, r, err)
		}
		select {
		case <-c.Context.Done():
		case <-time.After(look):
		}
	}
}

// patience is how long a request may be without a worker before one is started. A worker that was just started takes a moment until it leads.
const patience = 5 * time.Second

// reviver starts workers for a request whose worker was killed.
type reviver struct {
	site   site
	leader func() string
	next   time.Time
}

func (v *reviver) ifNeeded(now time.Time) error {
	if now.Before(v.next) {
		return nil
	}
	v.next = now.Add(patience)
	if v.leader() != "" {
		return nil
	}
	// Where the declaration has got problems since, a worker would end at once, and nobody would hear of it.
	if _, err := openSite(v.site.dir); err != nil {
		return err
	}
	return startWorker(v.site)
}

// goesOn says of a caller that leaves, whatever made it leave, what becomes of its request.
func goesOn(ctx context.Context, r reconfigure.Request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: request %s goes on without you; `reconfigure status` shows it", ctx.Err(), r.ID)
	}
	return fmt.Errorf("request %s is on disk and waits for a worker: %w", r.ID, err)
}
