package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

func pauseCommand() *cli.Command {
	return command(cli.Command{
		Name:  "pause",
		Usage: "begin nothing until `reconfigure continue`, for maintenance",
		Description: "Requests are still accepted, and wait; so do those that wait for jobs. Operations that have begun " +
			"go on to their end. `reconfigure status` and the callers that follow a request show who has paused, since " +
			"when and why. A second pause replaces the first.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`WHY`, for all who have to wait"}},
		Action: func(c *cli.Context) error {
			if text.OneLine(c.String("reason")) == "" {
				return usagef(c, "pause needs --reason: it is shown to all who have to wait")
			}
			return withJournal(c, siteAnyway, func(_ site.Site, log *journal.Journal) error {
				if err := log.Pause(c.Context, c.String("reason"), client.Caller(c.Context)); err != nil {
					return err
				}
				return showPause(c, log)
			})
		},
	})
}

func continueCommand() *cli.Command {
	return command(cli.Command{
		Name:  "continue",
		Usage: "end a pause and carry out what waits, or use a node group again",
		Description: "Without a pause it only starts a worker, as every request does. With GROUP, a pause goes on; " +
			"the failures of that node group are forgotten, so that Slurm gets as many of its nodes as it asks for. Use it " +
			"when the image is fixed, or there is room again.",
		ArgsUsage: "[GROUP...]",
		Flags:     []cli.Flag{workerFlag()},
		Action: func(c *cli.Context) error {
			return withJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
				if c.Args().Present() {
					return continueGroups(c, s, log)
				}
				if err := log.Continue(c.Context); err != nil {
					return err
				}
				if err := worker.Start(c.Context, s); err != nil {
					return fmt.Errorf("the pause has ended, but no worker could be started; `reconfigure worker` is one: %w", err)
				}
				return showPause(c, log)
			})
		},
	})
}

// continueGroups forgets the failures of node groups. If the declaration can be read, it rejects names that are not
// declared before it changes anything.
func continueGroups(c *cli.Context, s site.Site, log *journal.Journal) error {
	groups := c.Args().Slice()
	health, err := log.Health(c.Context)
	if err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { _, failed := health[g]; return failed })
	if s.Cluster.Name != "" {
		for _, group := range unknown {
			if _, err := reconfigure.GroupNamed(s.Cluster.Groups, group); err != nil {
				return usagef(c, "%v", err)
			}
		}
	}
	said := []status.Continued{}
	for _, group := range groups {
		was := health[group]
		forget := func(reconfigure.Health) reconfigure.Health { return reconfigure.Health{} }
		if err := log.UpdateHealth(c.Context, group, forget); err != nil {
			return err
		}
		said = append(said, status.Continued{Group: group, Failures: was.Failures, Full: was.Full.Reason})
	}
	return show(c, said, func(w io.Writer) error {
		for _, one := range said {
			if _, err := fmt.Fprintln(w, one); err != nil {
				return err
			}
		}
		return nil
	})
}

// showPause shows whether there is a pause.
func showPause(c *cli.Context, log *journal.Journal) error {
	read, err := status.Read(c.Context, log)
	if err != nil {
		return err
	}
	report := status.NewPause(read)
	return show(c, report, printing(report))
}
