package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
)

// errInstancesChange is the error of plan upgrade if Terraform's plan is not empty.
var errInstancesChange = errors.New("an upgrade is not safe: Terraform would do what no request asks for")

func planUpgradeCommand() *cli.Command {
	return command(cli.Command{
		Name:  "upgrade",
		Usage: "show what this version changes in a cluster directory of an earlier one",
		Description: "Shows the changes of the journal's schema, of the program's files and of Terraform's providers, " +
			"and has Terraform plan with this version's root module in a temporary folder. Terraform must not change an " +
			"instance: otherwise the exit code is 5. Nothing is changed, also not the journal. docs/guides/upgrade.md has " +
			"the steps.",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			upgrade, unplanned, err := client.Upgrade(c.Context, s, logger(c))
			if err != nil {
				return err
			}
			if err := show(c, upgrade, upgrade.Write); err != nil {
				return err
			}
			if len(upgrade.Refused) > 0 {
				return errInstancesChange
			}
			if unplanned != nil {
				return fmt.Errorf("whether instances change is unknown: %w", unplanned)
			}
			return nil
		},
	})
}
