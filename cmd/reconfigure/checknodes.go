package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func checkNodesCommand() *cli.Command {
	return command(cli.Command{
		Name:  "check-nodes",
		Usage: "run the health checks of idle nodes",
		Description: "Runs the checks that health_check of the group names, as root on each node, while the node is drained. " +
			"A node that passes is undrained. One that does not stays drained, with the reason in Slurm (class unhealthy). A " +
			"node with a job is left alone, and so is the drain of an administrator. docs/guides/health.md has more.\n\n" +
			hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags:     requestFlags(),
		Action: func(c *cli.Context) error {
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.CheckNodes, Nodes: nodes})
		},
	})
}
