package main

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

func workerCommand() *cli.Command {
	return command(cli.Command{
		Name:  "worker",
		Usage: "carry out the requests that wait, then end",
		Description: "Every request starts a worker if none runs, so there is no need to call it, except for requests that " +
			"`reconfigure status` shows as waiting after the control host or the worker went down. If a worker runs already, " +
			"this one ends at once. It stays while requests wait for jobs or cannot be planned and, with " +
			"reconfigure.reconcile_minutes, to compare the sources.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "do not stay: end when what can be carried out now has been, for cron " +
				"or a look at what happens", DisableDefaultText: true},
			&cli.BoolFlag{Name: "stay", Usage: "stay in any case, as a service does; behind a worker that stays " +
				"already, to take its place", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("once") && c.Bool("stay") {
				return usagef(c, "--once and --stay contradict each other")
			}
			return withJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
				out := logger(c)
				if err := tellWhyIdle(c.Context, log, out); err != nil {
					return err
				}
				return worker.Run(c.Context, s, log, out, c.Bool("once"), c.Bool("stay"))
			})
		},
	})
}

// tellWhyIdle logs why a worker may end at once.
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
