package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
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
	recorder := journal.NewRecorder(log.Record, func(err error, events []reconfigure.Event) {
		out.WarnContext(ctx, "events could not be written", "events", len(events), "reason", err.Error())
	})
	open := &opener{dir: s.dir, log: log, recorder: recorder, logger: out}
	defer open.close()
	config := controller.Config{Journal: log, Open: open.open, Flush: recorder.Flush, Log: out, Stay: stay, Once: once}
	if !once {
		compare, err := s.reconciler(log, out, stay)
		if err != nil {
			return err
		}
		config.Reconcile = compare
	}
	err := controller.Run(ctx, config)
	return errors.Join(err, recorder.Close(context.WithoutCancel(ctx)))
}

// tellWhyIdle says why a worker may end at once.
func tellWhyIdle(ctx context.Context, log *journal.Journal, out *slog.Logger) error {
	if who := log.Holder(ctx); who != "" {
		out.InfoContext(ctx, "another worker is at work", "holder", who)
	}
	p, paused, err := log.Paused(ctx)
	if paused {
		out.InfoContext(ctx, "nothing begins: "+status.PauseWords(p))
	}
	return err
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
	logFile, err := s.logs().Open("worker.log")
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
	file, err := a.site.logs().Open(a.name)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(text)
	return n, errors.Join(err, file.Close())
}
