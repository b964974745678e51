package main

import (
	"cmp"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

func hostsCommand() *cli.Command {
	const standard = "30d"
	return command(cli.Command{
		Name:  "hosts",
		Usage: "compare the hosts of the cloud: which of them fails more often than the others",
		Description: "It reads the journal and asks nobody. FAILED are the instances on a host that did not become " +
			"ready, OTHER HOSTS the same of all others, BOOT and CONFIGURE are medians. See docs/guides/failures.md.",
		Flags: []cli.Flag{
			sinceFlag(standard), &cli.StringFlag{Name: "group", Usage: "only of the node group `NAME`"},
			fullFlag(),
		},
		Action: func(c *cli.Context) error {
			since, err := usage.Since(time.Now(), cmp.Or(c.String("since"), standard))
			if err != nil {
				return usagef(c, "%v", err)
			}
			return readJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
				if err := client.KnowsGroup(s, c.String("group")); err != nil {
					return usagef(c, "%v", err)
				}
				hosts, err := client.Hosts(c.Context, log, since, c.String("group"))
				if err != nil {
					return err
				}
				return showTable(c, hosts, usage.HostTable(hosts))
			})
		},
	})
}
