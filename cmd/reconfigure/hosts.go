package main

import (
	"cmp"

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
			since := cmp.Or(c.String("since"), standard)
			return showUsage(c, nil, since, func(_ site.Site, l *journal.Journal, f usage.Filter) (shown, error) {
				hosts, err := client.Hosts(c.Context, l, f.Since, c.String("group"))
				return shown{hosts, usage.HostTable(hosts)}, err
			})
		},
	})
}
