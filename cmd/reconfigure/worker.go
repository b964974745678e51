package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func workerCommand() *cli.Command {
	return command(cli.Command{
		Name:  "worker",
		Usage: "carry out the requests that wait, then end",
		Description: "Every request starts a worker where none is at work, so there is no need to call it, but for requests that `reconfigure status` shows as waiting " +
			"after the control host or the worker went down. Where a worker is at work already, it ends at once. It stays while requests wait for jobs, or cannot be planned, " +
			"and, with reconfigure.reconcile_minutes, to look for what differs.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "do not stay: end when what can be carried out now has been, for cron or a look at what happens", DisableDefaultText: true},
			&cli.BoolFlag{Name: "stay", Usage: "stay in any case, as a service does; behind a worker that stays already, to take its place", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("once") && c.Bool("stay") {
				return usagef(c, "--once and --stay contradict each other")
			}
			return withJournal(c, siteAnyway, func(s site, log *journal.Journal) error {
				out := logger(c)
				if err := tellWhyIdle(c.Context, log, out); err != nil {
					return err
				}
				tidy := tidier{log: log, stamp: s.state("pruned"), keep: s.cluster.Settings.Keep, out: out, rest: s.prune}
				return tidy.during(c.Context, func() error { return s.work(c.Context, log, out, c.Bool("once"), c.Bool("stay")) })
			})
		},
	})
}

// work carries out the requests that wait.
func (s site) work(ctx context.Context, log *journal.Journal, out *slog.Logger, once, stay bool) error {
	common := engine.NewCommon()
	carrier := logged{out, batch.Pipeline{Turn: common.Terraform, Open: func(ctx context.Context) (reconfigure.Cluster, batch.Engine, error) {
		return openEngine(ctx, s.dir, log, out, common)
	}}}
	options := []batch.Option{
		batch.Window(func() time.Duration { return gatherWindow(s.dir) }),
		batch.Trouble(func(err error, pause time.Duration) {
			out.WarnContext(ctx, "the journal cannot be used, and is tried again", "reason", err.Error(), "pause", pause.Round(time.Second))
		}),
	}
	const poll = 10 * time.Second // a look at jobs that are waited for costs about a second
	switch {
	case once:
		return batch.WorkOnce(ctx, log, carrier, options...)
	case !stay && s.cluster.Settings.Reconcile == 0:
		return batch.Work(ctx, log, carrier, poll, options...)
	}
	self, err := thisProgram()
	if err != nil {
		return err
	}
	tends := tender{dir: s.dir, log: log, where: s.whereabouts(), out: out, self: self, fixed: stay, stay: s.cluster.Settings.Reconcile > 0}
	return batch.Stay(ctx, log, carrier, batch.Tender{Tend: tends.tend, Always: stay}, poll, options...)
}

// gatherWindow is how long requests that arrive together are waited for, as it is declared now. A declaration that cannot be read does not keep the worker from
// telling the callers so.
func gatherWindow(dir string) time.Duration {
	s, err := openSite(dir)
	if err != nil {
		return batch.DefaultWindow
	}
	return s.cluster.Settings.Gather
}

// tellWhyIdle says why a worker may end at once.
func tellWhyIdle(ctx context.Context, log *journal.Journal, out *slog.Logger) error {
	if who := log.Leader(ctx); who != "" {
		out.InfoContext(ctx, "another worker is at work", "leader", who)
	}
	p, paused, err := log.Paused(ctx)
	if paused {
		out.InfoContext(ctx, "nothing is begun: "+pauseWords(p))
	}
	return err
}

// openEngine reads the declaration afresh: it may have been edited since the worker began.
func openEngine(ctx context.Context, dir string, log *journal.Journal, out *slog.Logger, common *engine.Common) (reconfigure.Cluster, batch.Engine, error) {
	s, err := openSite(dir)
	if err != nil {
		return reconfigure.Cluster{}, nil, err
	}
	if err := errors.Join(s.upToDate(ctx, log), s.adopt(ctx, log)); err != nil {
		return s.cluster, nil, err
	}
	e, err := s.engine(ctx, log, log, out, common)
	return s.cluster, e, err
}

// logged is a carrier that leaves its batches in a log: what was asked for, by whom, and what became of it.
type logged struct {
	log *slog.Logger
	batch.Carrier
}

func (l logged) Carry(ctx context.Context, number int64, requests []reconfigure.Request, made func()) ([]reconfigure.Outcome, error) {
	log := l.log.With("batch", number)
	for _, r := range requests {
		log.InfoContext(ctx, "request begun", "request", r.ID, "mode", r.Mode, "nodes", r.Nodes, "caller", r.Caller)
	}
	outcomes, err := l.Carrier.Carry(ctx, number, requests, made)
	if err != nil {
		log.ErrorContext(ctx, "the batch was cut short, and its requests are tried again", "reason", err.Error())
	}
	for _, o := range outcomes {
		for _, w := range o.Deferred {
			log.InfoContext(ctx, "request waits", "request", o.Request, "node", w.Node, "reason", w.Reason)
		}
		if len(o.Deferred) > 0 {
			continue
		}
		if o.Error != "" {
			log.ErrorContext(ctx, "request failed", "request", o.Request, "reason", o.Error)
			continue
		}
		log.InfoContext(ctx, "request ended", "request", o.Request, "code", o.Code)
		for _, f := range fatesOf(o.Verdicts) {
			log.InfoContext(ctx, result(f.first), "request", o.Request, "nodes", f.nodes, "reason", why(f.first))
		}
	}
	return outcomes, err
}

// startWorker has a worker started that outlives this call, by whoever is to do so.
func startWorker(ctx context.Context, s site) error {
	if s.starter == reconfigure.WorkerSystemd {
		return startService(ctx, s.dir)
	}
	return detachWorker(s)
}

// detachWorker starts a worker that lives on, whoever kills this call or hangs up on it. Where one is at work already it ends at once.
func detachWorker(s site) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := s.logs().open("worker.log")
	if err != nil {
		return err
	}
	defer logFile.Close()
	return process.Detach(process.Cmd{
		Path: self, Args: []string{"--dir", s.dir, "worker"}, Dir: s.dir, Env: environment(os.Environ()), Stdout: logFile, Stderr: logFile,
	})
}

// appender writes to a log of the worker's. The file is open, and made, only while something is written: an engine is opened to look, too.
type appender struct {
	site site
	name string
}

func (a appender) Write(text []byte) (int, error) {
	file, err := a.site.logs().open(a.name)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(text)
	return n, errors.Join(err, file.Close())
}
