package main

import (
	"cmp"
	"time"

	"github.com/urfave/cli/v2"

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
			"the submission to the start; WHY is what a job waits for, or why it last did not get a node. See docs/jobs.md.",
		Flags: []cli.Flag{
			outputFlag(), sinceFlag("1d, or all that is known where a job or an instance is named"),
			&cli.StringFlag{Name: "node", Usage: "only jobs that had one of the nodes `HOSTLIST`"},
			&cli.StringFlag{Name: "instance", Usage: "only jobs that the instance with this `ID` served, or was made for"},
		},
		Action: anywhere(func(c *cli.Context, ids []string) error {
			return showUsage(c, ids, c.String("since"), func(f usage.Facts, pick usage.Filter) (any, status.Table) {
				jobs := pick.Select(usage.Jobs(f))
				return jobs, usage.JobTable(jobs, len(ids) > 0)
			})
		}),
	})
}

func reportCommand() *cli.Command {
	const standard = "30d"
	return command(cli.Command{
		Name:  "report",
		Usage: "show the hours of instances by node group and by user: used, idle, booting, wasted",
		Description: "It asks Slurm for its jobs, keeps them in the journal, and changes nothing else. The journal has " +
			"jobs and instances for keep_days after their end. See docs/jobs.md.",
		Flags: []cli.Flag{
			outputFlag(), sinceFlag(standard), &cli.StringFlag{Name: "group", Usage: "only of the node group `NAME`"},
		},
		Action: func(c *cli.Context) error {
			since := cmp.Or(c.String("since"), standard)
			return showUsage(c, nil, since, func(f usage.Facts, pick usage.Filter) (any, status.Table) {
				report := usage.NewReport(f, pick.Since, c.String("group"))
				return report, report.Write
			})
		},
	})
}

func sinceFlag(standard string) cli.Flag {
	return &cli.StringFlag{Name: "since", Usage: "from `TIME` ago on: 30d, 12h or 90m", DefaultText: standard}
}

// showUsage shows what view makes of what is known of jobs and instances.
func showUsage(
	c *cli.Context, ids []string, since string, view func(usage.Facts, usage.Filter) (any, status.Table),
) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	pick, err := usage.ParseFilter(time.Now(), ids, c.String("node"), c.String("instance"), since)
	if err != nil {
		return usagef(c, "%v", err)
	}
	return withJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
		if err := s.KnowsGroup(c.String("group")); err != nil {
			return usagef(c, "%v", err)
		}
		facts, err := s.Usage(c.Context, log, logger(c), pick.Since, pick.IDs...)
		if err != nil {
			return err
		}
		value, table := view(facts, pick)
		return format.Write(c.App.Writer, value, table)
	})
}
