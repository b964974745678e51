package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func checkCommand() *cli.Command {
	return command(cli.Command{
		Name:  "check",
		Usage: "look for what makes this site unsafe or slow, and say what to change",
		Description: "It looks at files and keys of this host, settings, versions, measured times, the cloud and Slurm, " +
			"and changes nothing. A source that does not answer is named, and the rest is checked. docs/guides/check.md " +
			"describes the checks.",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				report, err := client.Check(c.Context, adapters)
				if err != nil {
					return err
				}
				if err := show(c, report, report.Write); err != nil {
					return err
				}
				return report.Err()
			})
		},
	})
}

// warnOfErrors logs the faults in the files and keys of this host.
func warnOfErrors(c *cli.Context, s site.Site) {
	for _, f := range client.CheckHere(s).Findings {
		if f.Severity == check.Error {
			logger(c).WarnContext(c.Context, f.What, "why", f.Why, "change", f.Change)
		}
	}
}
