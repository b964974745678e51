package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
)

func deployCommand() *cli.Command {
	return command(cli.Command{
		Name:  "deploy",
		Usage: "make the control node and the persistent nodes where they are missing, and configure all nodes",
		Description: "Instances that are there are never replaced, so it may be repeated at any time: after an edit " +
			"of group_vars/all.yml, for instance, " +
			"so that Slurm's configuration follows it.",
		Flags: requestFlags(),
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			if err := client.Distinct(c.Context, s); err != nil {
				return err
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Deploy})
		},
	})
}
