package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
)

func recoverCommand() *cli.Command {
	return command(cli.Command{
		Name:  "recover",
		Usage: "rebuild the journal and Terraform's states of a cluster from the cloud, without a backup",
		Description: "It needs the declaration, the cloud's credentials and the private key that the nodes accept. A new " +
			"journal begins with a pause, so nothing is carried out before `reconfigure continue`. The instances, ports and " +
			"shared resources are imported until Terraform's plan changes nothing, and host keys are learned as declared. " +
			"Nothing in the cloud is made, changed or removed. What cannot be imported is named with the command to type; " +
			"then recover may be repeated, as after a kill. docs/guides/recover.md has all steps.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cluster-id", Usage: "the `ID` in the metadata of the instances, if several clusters have " +
				"the declared name"},
		},
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			done, err := client.Recover(c.Context, s, c.String("cluster-id"), logger(c))
			if err != nil {
				return notNow(c, err)
			}
			if err := show(c, done, printing(done.String())); err != nil {
				return err
			}
			return done.Err()
		},
	})
}
