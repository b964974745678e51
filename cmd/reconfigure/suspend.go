package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func suspendCommand() *cli.Command {
	return command(cli.Command{
		Name:  "suspend",
		Usage: "remove the instances of cloud nodes that Slurm has given up",
		Description: "What Slurm's SuspendProgram and ResumeFailProgram call. Persistent nodes, nodes with a job, " +
			"and nodes that Slurm would still use are left alone. " +
			"By hand, `scontrol update nodename=HOSTLIST state=power_down` is the better way: Slurm then calls this " +
			"itself.\n\n" + hostlistHelp,
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
