package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

// Status takes a snapshot, and returns the report of it.
func Status(ctx context.Context, s site.Site, out *slog.Logger) (report status.Report, err error) {
	last, err := worker.LastLook(s)
	if err != nil {
		out.WarnContext(ctx, err.Error()) // one line, as the others
	}
	if why := worker.NotifyError(s); why != "" {
		out.WarnContext(ctx, "the notify command failed; `reconfigure.notify` declares it", "reason", why)
	}
	err = s.IfJournal(ctx, func(log *journal.Journal) error {
		known := status.Journal{Time: time.Now()}
		if log != nil {
			var err error
			if known, err = status.Read(ctx, log); err != nil {
				return err
			}
		}
		adapters := s.Readers(log, out)
		defer adapters.Close()
		seen, err := adapters.Look(ctx)
		report = status.New(s.Cluster, seen, known, last)
		return err
	})
	return report, err
}
