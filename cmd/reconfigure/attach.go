package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func planAttachCommand() *cli.Command {
	return command(cli.Command{
		Name:  "attach",
		Usage: "show what would be written on a control node that exists (control_node.existing)",
		Description: "It reads slurm.conf there with its Includes, asks slurmctld, and changes nothing. The answer has " +
			"the files, the lines that slurmctld would read, and what speaks against it. With an error among the findings " +
			"nothing may be written. docs/guides/attach.md has more.",
		Action: func(c *cli.Context) error {
			if err := site.CheckOwner(directory(c)); err != nil {
				return usagef(c, "%v", err)
			}
			s, err := site.OpenExisting(directory(c))
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				p, err := client.PlanAttach(c.Context, adapters)
				if err != nil {
					return err
				}
				if err := show(c, p, p.Write); err != nil {
					return err
				}
				return p.Report.Err()
			})
		},
	})
}
