package main

import (
	"cmp"
	"fmt"
	"strconv"
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

func explainCommand() *cli.Command {
	const standard = "7d"
	return command(cli.Command{
		Name:      "explain",
		Usage:     "show what happened to a job, a node or a request, what it waits for, and what to do",
		ArgsUsage: "NODE | job NUMBER | request NUMBER | node NODE",
		Description: "It reads the journal, asks Slurm, the cloud and Terraform about a job or a node, and changes " +
			"only the jobs that the journal keeps. It says which of them do not answer, and shows what is " +
			"known. A wait is shown beside the median and the 95th percentile of the node's group in the newest " +
			"requests. See docs/guides/why.md.",
		Flags: []cli.Flag{sinceFlag(standard), fullFlag()},
		Action: func(c *cli.Context) error {
			subject, err := subjectOf(c.Args().Slice())
			if err != nil {
				return usagef(c, "%v", err)
			}
			since, err := usage.Since(time.Now(), cmp.Or(c.String("since"), standard))
			if err != nil {
				return usagef(c, "%v", err)
			}
			return readJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) error {
				if err := knows(c, s, log, subject); err != nil {
					return err
				}
				story, err := client.Explain(c.Context, s, log, notes(c), subject, since)
				if err != nil {
					return err
				}
				return showTable(c, story, story.Table(time.Now()))
			})
		},
	})
}

// subjectOf reads the arguments. A number alone is refused: it can be that of a job or of a request.
func subjectOf(args []string) (explain.Subject, error) {
	var s explain.Subject
	switch {
	case len(args) == 1:
		if _, err := strconv.ParseInt(args[0], 10, 64); err == nil {
			return s, fmt.Errorf("%s can be a job or a request: type `explain job %s` or `explain request %s`", args[0],
				args[0], args[0])
		}
		args = []string{"node", args[0]}
	case len(args) != 2:
		return s, fmt.Errorf("explain needs a node, `job NUMBER` or `request NUMBER`, but got %q", args)
	}
	kind, name := args[0], args[1]
	if kind == "node" {
		nodes, err := nodeset.Parse(name)
		if err == nil && nodes.Len() != 1 {
			err = fmt.Errorf("explain needs one node, but %s are %d", nodes, nodes.Len())
		}
		s.Node = nodes.String()
		return s, err
	}
	id, err := strconv.ParseInt(name, 10, 64)
	switch {
	case kind != "job" && kind != "request":
		return s, fmt.Errorf("%q is neither job, request nor node", kind)
	case err != nil || id < 1:
		return s, fmt.Errorf("%q is not the number of a %s", name, kind)
	case kind == "job":
		s.Job = id
	default:
		s.Request = reconfigure.RequestID(id)
	}
	return s, nil
}

// knows returns an error for a node that is not declared and had no instance, and for a request that the journal does
// not have. A job may be known to Slurm alone.
func knows(c *cli.Context, s site.Site, log *journal.Journal, subject explain.Subject) error {
	if subject.Node != "" {
		return demandKnown(c, s, log, nodeset.Of(subject.Node))
	}
	if subject.Request == 0 {
		return nil
	}
	if log == nil {
		return unknownRequest(c, subject.Request)
	}
	_, there, err := log.Request(c.Context, subject.Request)
	if err == nil && !there {
		err = unknownRequest(c, subject.Request)
	}
	return err
}
