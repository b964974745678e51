package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func destroyCommand() *cli.Command {
	return command(cli.Command{
		Name:  "destroy",
		Usage: "remove the whole cluster, with every job on it",
		Description: "Removes the control node, every node, and what they share: security group, key pair, floating " +
			"IP. " +
			"It asks for the cluster's name first, unless --yes is given. The declaration, the journal and the logs " +
			"stay.",
		Flags: append(requestFlags(), &cli.BoolFlag{Name: "yes", Usage: "do not ask", DisableDefaultText: true}),
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			asks := !c.Bool("yes") && !c.Bool("dry-run")
			if asks && wantsJSON(c) {
				return usagef(c, "with --json there is no question: destroy needs --yes then")
			}
			if asks {
				if err := confirm(c, s.Cluster.Name); err != nil {
					return err
				}
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Destroy})
		},
	})
}

// confirm asks for the cluster's name: it is too easy to type yes in the wrong directory.
func confirm(c *cli.Context, name string) error {
	fmt.Fprintf(
		c.App.ErrWriter,
		"This removes the control node and every node of cluster %s, and ends all jobs.\nType the cluster's name to "+
			"go on:\n",
		name,
	)
	answer, err := process.Interruptible(
		c.Context,
		func() (string, error) { return bufio.NewReader(c.App.Reader).ReadString('\n') },
	)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("ask for the cluster's name: %w", err)
	}
	if strings.TrimSpace(answer) != name {
		return &usageError{
			message: fmt.Sprintf(
				"%q is not the cluster's name, so nothing was done; where no answer can be given, there is --yes",
				strings.TrimSpace(answer),
			),
		}
	}
	return nil
}
