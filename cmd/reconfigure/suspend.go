package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func suspendCommand() *cli.Command {
	return command(cli.Command{
		Name:  "suspend",
		Usage: "remove the instances of cloud nodes that Slurm has given up",
		Description: "Slurm's SuspendProgram and ResumeFailProgram call it. Persistent nodes, nodes with a job, " +
			"and nodes that Slurm would still use are left alone. " +
			"By hand, use `scontrol update nodename=HOSTLIST state=power_down` instead: Slurm then calls this " +
			"command.\n\n" + hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags:     requestFlags(),
		Action: func(c *cli.Context) error {
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodes})
		},
	})
}
