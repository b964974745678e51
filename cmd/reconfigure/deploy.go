package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func deployCommand() *cli.Command {
	return command(cli.Command{
		Name:  "deploy",
		Usage: "make the control node and the persistent nodes where they are missing, and run the playbooks on all",
		Flags: requestFlags(),
		Action: func(c *cli.Context) error {
			return submit(c, reconfigure.Request{Mode: reconfigure.Deploy})
		},
	})
}
