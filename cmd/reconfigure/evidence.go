package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func evidenceCommand() *cli.Command {
	return command(cli.Command{
		Name:  "evidence",
		Usage: "show why nodes failed: their console logs, and what Ansible's task printed",
		Description: "It is stored when a node does not boot, cannot be configured or does not register, before its " +
			"instance is removed, and kept as long as its request. Without --all it shows each node's last failure. The " +
			"console log is the end of what the cloud has; control characters in it are replaced, except with --json.\n\n" + hostlistHelp,
		ArgsUsage: "[HOSTLIST...]",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "request", DefaultText: "any",
				Usage: "only what was kept while request `NUMBER` was carried out; then HOSTLIST may be left out"},
			&cli.BoolFlag{Name: "all", Usage: "of all failures, oldest first", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			var nodes nodeset.NodeSet
			if c.Args().Present() || !c.IsSet("request") {
				var err error
				if nodes, err = hostlist(c); err != nil {
					return err
				}
			}
			return readJournal(c, siteAnyway, func(_ site.Site, log *journal.Journal) error {
				kept, err := evidence(c, log, nodes)
				if err != nil {
					return err
				}
				if !c.Bool("all") {
					kept = status.LastFailures(kept)
				}
				return showEvidence(c, nodes, kept)
			})
		},
	})
}

// evidence returns the kept evidence of nodes; without nodes, of all nodes of the request.
func evidence(c *cli.Context, log *journal.Journal, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error) {
	id := reconfigure.RequestID(c.Int64("request"))
	switch {
	case log == nil && c.IsSet("request"):
		return nil, unknownRequest(c, id)
	case log == nil:
		return nil, nil
	case !c.IsSet("request"):
		return log.Evidence(c.Context, nodes)
	}
	r, there, err := log.Request(c.Context, id)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, unknownRequest(c, id)
	}
	kept, err := log.EvidenceOf(c.Context, r)
	others := func(e reconfigure.Evidence) bool { return !nodes.Empty() && !nodes.Contains(e.Node) }
	return slices.DeleteFunc(kept, others), err
}

func showEvidence(c *cli.Context, nodes nodeset.NodeSet, kept []reconfigure.Evidence) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	if format.ForPeople() {
		return status.WriteEvidence(c.App.Writer, nodes, kept)
	}
	for _, e := range kept {
		if err := format.Write(c.App.Writer, e, nil); err != nil {
			return err
		}
	}
	return nil
}
