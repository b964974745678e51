package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// tidier removes old data from the journal and the state directory, by the declared age, at most once a day.
type tidier struct {
	log   *journal.Journal
	stamp string        // a file whose time is that of the last run
	keep  time.Duration // 0: everything
	out   *slog.Logger
	rest  func(now, before time.Time) error // prunes data outside the journal
}

// prune removes logs and Ansible's leftovers that are older than the cut-off, and the sockets of killed workers.
func prune(s site.Site, now, before time.Time) error {
	return errors.Join(s.Logs().Prune(now, before), ansible.Sweep(s.StateFile(), before), sockets.Sweep())
}

// during tidies when a worker has finished its work, and each hour while it stays for deferred requests.
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

// ifDue removes old data, unless that was done within the last day. It may run while requests are carried out: it
// removes nothing that belongs to a request without an outcome. An error is logged and fails nothing; the next day it
// is retried. The stamp is written first, so that only one of several workers does it.
func (t tidier) ifDue(ctx context.Context, now time.Time) {
	const day = 24 * time.Hour
	last, err := os.Stat(t.stamp)
	first := err != nil
	if !first && now.Sub(last.ModTime()) < day || t.keep == 0 || ctx.Err() != nil {
		return
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(t.stamp), 0o700), renameio.WriteFile(t.stamp, nil, 0o600))
	if err == nil {
		before := now.Add(-t.keep)
		err = t.log.Prune(ctx, before)
		if !first { // else today's logs would be set aside
			err = errors.Join(err, t.rest(now, before))
		}
	}
	if err != nil {
		t.out.WarnContext(ctx, "old data could not be removed", "reason", err.Error())
	}
}
