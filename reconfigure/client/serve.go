package client

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

var _ web.Journal = (*journal.Journal)(nil)

// Serve serves the page of a cluster until ctx ends, and returns nil then. It writes nothing, except that an older
// journal is migrated.
func Serve(ctx context.Context, s site.Site, out *slog.Logger, l net.Listener) error {
	return s.IfJournal(ctx, func(log *journal.Journal) error {
		if log == nil {
			return errors.Join(errors.New("there is no journal yet: the first request, as by `reconfigure deploy`, makes it"),
				l.Close())
		}
		facts := worker.Metrics(s, log)
		pages := web.New(ctx, web.Sources{
			Journal: log, Cluster: facts.Cluster, Log: out, AnyHost: l.Addr().Network() == "unix",
			Ask:     func(ctx context.Context) (web.Answers, error) { return answers(ctx, s, log, out) },
			Last:    func() (reconcile.Look, error) { return worker.LastLook(s) },
			Metrics: metrics.Handler(metrics.NewCollector(facts)),
		})
		return web.Serve(ctx, l, pages.Handler())
	})
}

// answers asks Slurm, the cloud and Terraform by the declaration as it is now.
func answers(ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger) (web.Answers, error) {
	if now, err := site.Open(s.Dir); err == nil { // else the last one is used
		s = now
	}
	adapters := s.Readers(log, out)
	defer adapters.Close()
	var a web.Answers
	var err error
	if a.Seen, err = adapters.Look(ctx); err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, site.AnswerWithin)
	defer cancel()
	if cloud, err := adapters.Cloud(ctx); err == nil { // else the snapshot says why
		if room, err := cloud.Room(ctx); err == nil {
			a.Room = &room
		}
	}
	return a, nil
}
