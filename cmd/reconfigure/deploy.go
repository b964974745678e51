package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func deployCommand() *cli.Command {
	return command(cli.Command{
		Name:  "deploy",
		Usage: "make the control node and the persistent nodes where they are missing, and configure all nodes",
		Description: "Instances that are there are never replaced, so it may be repeated at any time: after an edit " +
			"of all.yml, for instance, " +
			"so that Slurm's configuration follows it. At its end the control node calls this host, as Slurm does to " +
			"resume nodes; the exit code is 1 if it cannot.",
		Flags: requestFlags(),
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			if err := client.Distinct(c.Context, s); err != nil {
				return err
			}
			err = submit(c, reconfigure.Request{Mode: reconfigure.Deploy})
			if err != nil || c.Bool("no-wait") || c.Bool("dry-run") {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				warning, err := client.CallBack(c.Context, adapters)
				if warning != "" {
					notes(c).WarnContext(c.Context, warning)
				}
				return err
			})
		},
	})
}
