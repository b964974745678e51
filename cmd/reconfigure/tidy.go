package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// tidier takes out of the journal what is older than is declared, at most once a day.
type tidier struct {
	log   *journal.Journal
	stamp string        // a file that is as old as the last time
	keep  time.Duration // 0: everything
	out   *slog.Logger
}

// during tidies when a worker has done its work, and each hour while it stays for requests that are held.
func (t tidier) during(ctx context.Context, work func() error) error {
	const pause = time.Hour
	ended := make(chan struct{})
	var hourly sync.WaitGroup
	hourly.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(pause):
				t.ifDue(ctx, time.Now())
			}
		}
	})
	err := work()
	close(ended)
	hourly.Wait()
	t.ifDue(ctx, time.Now())
	return err
}

// ifDue tidies unless that was done within the last day, or somebody is at work: requests come first. What goes wrong is told and fails nothing; tomorrow is another
// day. The stamp comes before the deed: of several workers one does it.
func (t tidier) ifDue(ctx context.Context, now time.Time) {
	const day = 24 * time.Hour
	last, err := os.Stat(t.stamp)
	if err == nil && now.Sub(last.ModTime()) < day || t.keep == 0 || ctx.Err() != nil || t.log.Leader(ctx) != "" {
		return
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(t.stamp), 0o700), renameio.WriteFile(t.stamp, nil, 0o600))
	if err == nil {
		err = t.log.Prune(ctx, now.Add(-t.keep))
	}
	if err != nil {
		t.out.WarnContext(ctx, "what is old could not be taken out of the journal", "reason", err.Error())
	}
}
