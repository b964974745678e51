package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
)

func inventoryCommand() *cli.Command {
	return command(cli.Command{
		Name:  "inventory",
		Usage: "print Ansible's inventory of what is there",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "list", Usage: "all groups and hosts, by Ansible's contract for inventory scripts"}},
		Action: func(c *cli.Context) error {
			if !c.Bool("list") {
				return usagef("inventory needs --list")
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			driver, err := s.terraform(c.Context, logger(c))
			if err != nil {
				return err
			}
			instances, err := driver.Instances(c.Context)
			if err != nil {
				return err
			}
			text, err := ansible.Inventory(s.cluster, instances)
			if err != nil {
				return err
			}
			_, err = c.App.Writer.Write(text)
			return err
		},
	})
}
