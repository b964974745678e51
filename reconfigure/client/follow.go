package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

// Follow shows what happens to a request until it has an outcome. Cancelling ctx stops only the display.
func Follow(
	ctx context.Context, s site.Site, log *journal.Journal, r reconfigure.Request, shown status.View,
) (reconfigure.Outcome, error) {
	const look = 250 * time.Millisecond
	var (
		revive = reviver{
			log: log, request: r.ID, start: func() error { return worker.Start(ctx, s) }, next: time.Now().Add(workerStart),
		}
		waits   = status.Teller{Log: log, Request: r.ID, Full: func() string { return full(s) }}
		outcome reconfigure.Outcome
		ended   bool
		seen    int64
	)
	for {
		// The outcome is read first: the earlier events are then already in the journal.
		var err error
		if outcome, ended, err = log.Outcome(ctx, r.ID); err != nil {
			return outcome, goesOn(ctx, r, err)
		}
		events, err := log.Events(ctx, r.ID, seen)
		if err != nil {
			return outcome, goesOn(ctx, r, err)
		}
		if len(events) > 0 {
			seen = events[len(events)-1].ID
		}
		shown.Events(events)
		if ended {
			shown.End()
			return outcome, nil
		}
		news, err := waits.Look(ctx, time.Now())
		if err != nil {
			return outcome, goesOn(ctx, r, err)
		}
		shown.Events(news)
		if err := revive.ifNeeded(ctx, time.Now()); err != nil {
			return outcome, goesOn(ctx, r, err)
		}
		_ = sleep.For(ctx, look) // the journal says next that ctx has ended
	}
}

// full returns what to do if the disk of the state directory is full; else "". A worker can then write neither its
// log nor the journal. It retries until it can.
func full(s site.Site) string {
	const little = 256 << 10
	var system unix.Statfs_t
	if unix.Statfs(s.StateFile(), &system) != nil || system.Bavail*uint64(system.Bsize) > little {
		return ""
	}
	return fmt.Sprintf("the disk of %s is full, and the worker cannot write: free space there, and it goes on",
		s.StateFile())
}

const (
	// workerStart is how long a request may be without a worker before one is started. A worker that was just started
	// takes a moment until it holds the lease.
	workerStart = 5 * time.Second
	// deferredStart is the same for a deferred request. A worker that has nothing to do ends at once.
	deferredStart = time.Minute
)

// reviver starts workers for a request whose worker was killed.
type reviver struct {
	log interface {
		Holder(ctx context.Context) string
		Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
		Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	}
	request reconfigure.RequestID
	start   func() error
	next    time.Time
}

func (v *reviver) ifNeeded(ctx context.Context, now time.Time) error {
	if now.Before(v.next) {
		return nil
	}
	v.next = now.Add(workerStart)
	if v.log.Holder(ctx) != "" {
		return nil
	}
	// A worker would end at once. The call that ends the pause starts one; if that fails, this loop does.
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
	return v.start()
}

// LeftError is the error of a caller that was interrupted while it followed a request or a campaign. It wraps the
// context's error.
type LeftError struct {
	goesOn string // the current activity
	follow string // the command that follows it again
	cause  error
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("interrupted: %s goes on; `reconfigure %s` follows it again", e.goesOn, e.follow)
}

func (e *LeftError) Unwrap() error { return e.cause }

// goesOn returns the error of a caller that stops following a request; it says that the request continues.
func goesOn(ctx context.Context, r reconfigure.Request, err error) error {
	if ctx.Err() != nil {
		return &LeftError{"request " + r.ID.String(), "wait " + r.ID.String(), ctx.Err()}
	}
	return fmt.Errorf("request %s is on disk and waits for a worker: %w", r.ID, err)
}

// FollowCampaign returns a campaign when it has ended or is paused, and calls shown whenever it has changed.
// Cancelling ctx stops only the display.
func FollowCampaign(
	ctx context.Context, s site.Site, log *journal.Journal, id reconfigure.CampaignID, shown func(reconfigure.Campaign),
) (c reconfigure.Campaign, err error) {
	const look = time.Second
	var before []byte
	next := time.Now().Add(workerStart)
	for {
		newest, _, err := log.Campaign(ctx)
		switch {
		case ctx.Err() != nil:
			return c, &LeftError{"campaign " + id.String(), "campaign --wait", ctx.Err()}
		case err != nil:
			return c, fmt.Errorf("campaign %s goes on; `reconfigure campaign --wait` follows it again: %w", id, err)
		case newest.ID != id:
			return c, fmt.Errorf("campaign %s has ended: campaign %s has begun", id, newest.ID)
		}
		c = newest
		now, err := json.Marshal(c)
		if err != nil {
			return c, err
		}
		if !bytes.Equal(now, before) {
			before = now
			shown(c)
		}
		if c.Ends() || c.State == reconfigure.CampaignPaused {
			return c, nil
		}
		if time.Now().After(next) {
			next = time.Now().Add(deferredStart)
			if err := reviveCampaign(ctx, s, log); err != nil {
				return c, err
			}
		}
		_ = sleep.For(ctx, look) // the journal says next that ctx has ended
	}
}

// reviveCampaign starts a worker if there is none, and no pause.
func reviveCampaign(ctx context.Context, s site.Site, log *journal.Journal) error {
	if log.Holder(ctx) != "" {
		return nil
	}
	if _, paused, err := log.Paused(ctx); err != nil || paused {
		return err
	}
	return worker.Start(ctx, s)
}
