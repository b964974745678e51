package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

func historyCommand() *cli.Command {
	const standard = "1d"
	return command(cli.Command{
		Name:  "history",
		Usage: "show what happened, a line each: requests, phases of nodes, instances, jobs",
		Description: "It reads the journal and asks nobody. A line must match each filter. With --json each line is an " +
			"object. See docs/guides/why.md.",
		Flags: []cli.Flag{
			sinceFlag(standard),
			&cli.StringFlag{Name: "node", Usage: "only what concerns one of the nodes `HOSTLIST`"},
			&cli.Int64Flag{Name: "job", DefaultText: "any", Usage: "only what concerns job `NUMBER`"},
			&cli.Int64Flag{Name: "request", DefaultText: "any", Usage: "only what was done for request `NUMBER`"},
			&cli.StringFlag{Name: "class", Usage: "only failures of `CLASS`, as in docs/guides/failures.md"},
			&cli.StringFlag{Name: "host", Usage: "only what happened to instances on the host `NAME`"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, DisableDefaultText: true,
				Usage: "go on with what happens next, until Ctrl-C"},
		},
		Action: func(c *cli.Context) error {
			filter, err := historyFilter(c, cmp.Or(c.String("since"), standard))
			if err != nil {
				return usagef(c, "%v", err)
			}
			return readJournal(c, siteAnyway, func(_ site.Site, log *journal.Journal) error {
				if log == nil {
					return showLines(c, nil)
				}
				return client.History(c.Context, log, filter, c.Bool("follow"), func(lines []explain.Line) error {
					return showLines(c, lines)
				})
			})
		},
	})
}

func historyFilter(c *cli.Context, since string) (f explain.Filter, err error) {
	f.Job, f.Request, f.Host = c.Int64("job"), reconfigure.RequestID(c.Int64("request")), c.String("host")
	if f.Since, err = usage.Since(time.Now(), since); err != nil {
		return f, err
	}
	if nodes := c.String("node"); nodes != "" {
		if f.Nodes, err = nodeset.Parse(nodes); err != nil {
			return f, err
		}
	}
	class := c.String("class")
	if class == "" {
		return f, nil
	}
	var known bool
	if f.Class, known = client.KnowsClass(class); !known {
		return f, fmt.Errorf("there is no class %q; the classes are %q", class, reconfigure.Classes())
	}
	return f, nil
}

func showLines(c *cli.Context, lines []explain.Line) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if format.ForPeople() {
			_, err = fmt.Fprintln(c.App.Writer, l)
		} else {
			err = format.Write(c.App.Writer, l, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
