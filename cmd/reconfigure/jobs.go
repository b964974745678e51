package main

import (
	"cmp"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

func jobsCommand() *cli.Command {
	return command(cli.Command{
		Name:      "jobs",
		Usage:     "show which instances served which jobs; with JOBID, what happened to the job and its instances",
		ArgsUsage: "[JOBID...]",
		Description: "It asks Slurm for its jobs, keeps them in the journal, and changes nothing else. WAITED is from " +
			"the submission to the start; WHY is what a job waits for, or why it last did not get a node. " +
			"See docs/guides/jobs.md.",
		Flags: []cli.Flag{
			sinceFlag("1d, or all that is known where a job or an instance is named"),
			&cli.StringFlag{Name: "node", Usage: "only jobs that had one of the nodes `HOSTLIST`"},
			&cli.StringFlag{Name: "instance", Usage: "only jobs that the instance with this `ID` served, or was made for"},
			fullFlag(),
		},
		Action: func(c *cli.Context) error {
			ids := c.Args().Slice()
			return showUsage(c, ids, c.String("since"), func(s site.Site, l *journal.Journal, f usage.Filter) (shown, error) {
				jobs, err := client.Jobs(c.Context, s, l, notes(c), f)
				return shown{jobs, usage.JobTable(jobs, len(ids) > 0)}, err
			})
		},
	})
}

const reportName = "report"

func reportCommand() *cli.Command {
	const standard = "30d"
	return command(cli.Command{
		Name:  reportName,
		Usage: "show the hours of instances by node group and by user: used, idle, booting, wasted",
		Description: "It asks Slurm for its jobs, keeps them in the journal, and changes nothing else. The journal has " +
			"jobs and instances for keep_days after their end. See docs/guides/jobs.md.",
		Flags: []cli.Flag{
			sinceFlag(standard), &cli.StringFlag{Name: "group", Usage: "only of the node group `NAME`"},
			fullFlag(),
		},
		Action: func(c *cli.Context) error {
			since := cmp.Or(c.String("since"), standard)
			return showUsage(c, nil, since, func(s site.Site, l *journal.Journal, f usage.Filter) (shown, error) {
				report, err := client.Report(c.Context, s, l, notes(c), f, c.String("group"))
				return shown{report, report.Write}, err
			})
		},
	})
}

func sinceFlag(standard string) cli.Flag {
	return &cli.StringFlag{Name: "since", Usage: "from `TIME` ago on: 30d, 12h or 90m", DefaultText: standard}
}

// shown is a value with a function that prints it for people.
type shown struct {
	value any
	table status.Table
}

// showUsage prints the value that read returns.
func showUsage(
	c *cli.Context, ids []string, since string,
	read func(site.Site, *journal.Journal, usage.Filter) (shown, error),
) error {
	pick, err := usage.ParseFilter(time.Now(), ids, c.String("node"), c.String("instance"), since)
	if err != nil {
		return usagef(c, "%v", err)
	}
	return readJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
		if err := client.KnowsGroup(s, c.String("group")); err != nil {
			return usagef(c, "%v", err)
		}
		if err := demandKnown(c, s, log, pick.Nodes); err != nil {
			return err
		}
		what, err := read(s, log, pick)
		if err != nil {
			return err
		}
		return showTable(c, what.value, what.table)
	})
}
