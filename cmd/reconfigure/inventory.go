package main

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func inventoryCommand() *cli.Command {
	return command(cli.Command{
		Name:  "inventory",
		Usage: "print Ansible's inventory of what is there",
		Description: "For playbooks and ad-hoc commands of your own: written to a file beside group_vars, it is what " +
			"the tool's own playbooks get. " +
			"It comes from Terraform's state, and is JSON unless --output names another format.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", DisableDefaultText: true,
				Usage: "all groups and hosts, by Ansible's contract for inventory scripts"},
		},
		Action: func(c *cli.Context) error {
			if !c.Bool("list") {
				return usagef(c, "inventory needs --list")
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				text, err := client.Inventory(c.Context, adapters)
				if err != nil {
					return err
				}
				return show(c, json.RawMessage(text), printing(string(text)))
			})
		},
	})
}
