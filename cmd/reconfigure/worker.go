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
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func workerCommand() *cli.Command {
	return command(cli.Command{
		Name:  "worker",
		Usage: "carry out the requests that wait, then end",
		Description: "Every request starts a worker where none is at work, so there is no need to call it, but for requests that `reconfigure status` shows as waiting " +
			"after the control host or the worker went down. Where a worker is at work already, it ends at once. It stays while requests wait for jobs, or cannot be planned.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "do not stay: end when what can be carried out now has been, for cron or a look at what happens", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			return withJournal(c, func(s site, log *journal.Journal) error {
				out := logger(c)
				if err := tellWhyIdle(c.Context, log, out); err != nil {
					return err
				}
				tidy := tidier{log: log, stamp: s.state("pruned"), keep: s.cluster.Settings.Keep, out: out}
				return tidy.during(c.Context, func() error { return s.work(c.Context, log, out, c.Bool("once")) })
			})
		},
	})
}

// work carries out the requests that wait.
func (s site) work(ctx context.Context, log *journal.Journal, out *slog.Logger, once bool) error {
	carrier := logged{out, batch.Pipeline{Open: func(ctx context.Context) (reconfigure.Cluster, batch.Engine, error) {
		return openEngine(ctx, s.dir, log, out)
	}}}
	if once {
		return batch.WorkOnce(ctx, log, carrier)
	}
	const poll = 10 * time.Second // a look at jobs that are waited for costs about a second
	return batch.Work(ctx, log, carrier, poll)
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
func openEngine(ctx context.Context, dir string, log *journal.Journal, out *slog.Logger) (reconfigure.Cluster, batch.Engine, error) {
	s, err := openSite(dir)
	if err != nil {
		return reconfigure.Cluster{}, nil, err
	}
	if err := errors.Join(s.upToDate(ctx, log), s.adopt(ctx, log)); err != nil {
		return s.cluster, nil, err
	}
	engine, err := s.engine(ctx, log, out)
	return s.cluster, engine, err
}

// logged is a carrier that leaves its batches in a log: what was asked for, by whom, and what became of it.
type logged struct {
	log *slog.Logger
	batch.Carrier
}

func (l logged) Carry(ctx context.Context, number int64, requests []reconfigure.Request) []reconfigure.Outcome {
	log := l.log.With("batch", number)
	for _, r := range requests {
		log.InfoContext(ctx, "request begun", "request", r.ID, "mode", r.Mode, "nodes", r.Nodes, "caller", r.Caller)
	}
	outcomes := l.Carrier.Carry(ctx, number, requests)
	for _, o := range outcomes {
		for _, w := range o.Waiting {
			log.InfoContext(ctx, "request waits", "request", o.Request, "node", w.Node, "reason", w.Reason)
		}
		if len(o.Waiting) > 0 {
			continue
		}
		if o.Error != "" {
			log.ErrorContext(ctx, "request failed", "request", o.Request, "reason", o.Error)
			continue
		}
		log.InfoContext(ctx, "request ended", "request", o.Request, "code", o.Code)
		for _, f := range fatesOf(o.Verdicts) {
			log.InfoContext(ctx, f.result(), "request", o.Request, "nodes", f.set(), "reason", f.why())
		}
	}
	return outcomes
}

// startWorker starts a worker that outlives this call, whoever kills or hangs up on it. Where one is at work already it ends at once.
func startWorker(s site) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := s.openLog("worker.log")
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
	file, err := a.site.openLog(a.name)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(text)
	return n, errors.Join(err, file.Close())
}

// openLog opens a log of the worker's for appending.
func (s site) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(s.state("log"), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(s.state("log", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
