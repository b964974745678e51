package main

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func waitCommand() *cli.Command {
	return command(cli.Command{
		Name:  "wait",
		Usage: "follow a request to its outcome, as its caller does",
		Description: "It shows what has happened to the request so far and follows it to its end, with the exit code " +
			"that its caller gets. If the request has ended, it shows the outcome. Ctrl-C stops only the display.",
		ArgsUsage: "REQUEST",
		Flags: []cli.Flag{
			verboseFlag(""),
			workerFlag(),
		},
		Action: func(c *cli.Context) error {
			return withRequest(c, func(s site.Site, log *journal.Journal, r reconfigure.Request) error {
				outcome, ended, err := log.Outcome(c.Context, r.ID)
				switch {
				case err != nil:
					return err
				case ended:
					return showOutcome(c, s, r, outcome)
				}
				return followToTheEnd(c, s, log, r)
			})
		},
	})
}

// withRequest calls a function with the request that the only argument names.
func withRequest(c *cli.Context, do func(site.Site, *journal.Journal, reconfigure.Request) error) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	return readJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
		if log == nil {
			return unknownRequest(c, id)
		}
		r, there, err := log.Request(c.Context, id)
		if err != nil {
			return err
		}
		if !there {
			return unknownRequest(c, id)
		}
		return do(s, log, r)
	})
}

func unknownRequest(c *cli.Context, id reconfigure.RequestID) error {
	return usagef(
		c,
		"the journal has no request %s: `reconfigure status` shows those without an outcome, and old ones are not "+
			"kept for ever",
		id,
	)
}

func requestID(c *cli.Context) (reconfigure.RequestID, error) {
	if c.NArg() != 1 {
		return 0, usagef(c, "%s needs the number of one request, but got %q", c.Command.Name, c.Args().Slice())
	}
	id, err := strconv.ParseInt(c.Args().First(), 10, 64)
	if err != nil || id < 1 {
		return 0, usagef(c, "%q is not the number of a request: `reconfigure status` shows the numbers", c.Args().First())
	}
	return reconfigure.RequestID(id), nil
}
