package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

var _ metrics.Journal = (*journal.Journal)(nil)

// Metrics returns where the metrics of a site come from.
func Metrics(s site.Site, log *journal.Journal) metrics.Facts {
	return metrics.Facts{
		Journal: log, Cluster: declared(s), Size: log.Size,
		Look: func() (reconcile.Look, error) { return LastLook(s) },
	}
}

// declared returns a function that returns the declared cluster. It reads the declaration again after a minute, and
// returns the last readable one.
func declared(s site.Site) func() reconfigure.Cluster {
	const every = time.Minute
	var lock sync.Mutex
	last, read := s.Cluster, time.Now()
	return func() reconfigure.Cluster {
		lock.Lock()
		defer lock.Unlock()
		if time.Since(read) >= every {
			read = time.Now()
			if s, err := site.Open(s.Dir); err == nil {
				last = s.Cluster
			}
		}
		return last
	}
}

// export exports metrics, if an address is declared, until the returned function is called. A nil notifier is none.
func export(
	ctx context.Context, s site.Site, log *journal.Journal, lost func() int64, n *notifier, out *slog.Logger,
) (end func()) {
	address := s.Cluster.Settings.Metrics
	if address == "" {
		return func() {}
	}
	facts := Metrics(s, log)
	facts.Lost = lost
	if n != nil {
		facts.Notified = n.last
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { metrics.Serve(ctx, address, metrics.Handler(metrics.NewCollector(facts)), out) })
	return func() { cancel(); wait.Wait() }
}
