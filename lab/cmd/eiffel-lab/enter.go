package main

import (
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

func enterCommand() *cli.Command {
	return &cli.Command{
		Name:      "enter",
		Usage:     "run a command, or a shell, in the demo that is up: as root in a node, or as the control host's user",
		ArgsUsage: "NODE [COMMAND...]",
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return errors.New("enter needs a node: ctl, node01, …, or control-host")
			}
			argv := c.Args().Tail()
			if len(argv) == 0 {
				argv = []string{"bash", "-i"}
			}
			cmd, err := cluster.Enter(c.Context, demoName, c.Args().First(), argv...)
			if err != nil {
				return err
			}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			return cmd.Run()
		},
	}
}
