package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func destroyCommand() *cli.Command {
	return command(cli.Command{
		Name:  "destroy",
		Usage: "remove the whole cluster, with every job on it",
		Flags: append(requestFlags(), &cli.BoolFlag{Name: "yes", Usage: "do not ask"}),
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			if !c.Bool("yes") {
				if err := confirm(c, s.cluster.Name); err != nil {
					return err
				}
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Destroy})
		},
	})
}

func confirm(c *cli.Context, name string) error {
	fmt.Fprintf(c.App.Writer, "This removes the control node and every node of cluster %s, and ends all jobs.\nType the cluster's name to go on: ", name)
	answer, _ := bufio.NewReader(c.App.Reader).ReadString('\n') // no answer is a no
	if strings.TrimSpace(answer) != name {
		return usagef("not confirmed: nothing was done")
	}
	return nil
}
