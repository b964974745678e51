package main

import (
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func statusCommand() *cli.Command {
	return command(cli.Command{
		Name:      "status",
		Usage:     "show each node as Slurm, the cloud, Terraform and the journal have it, and the requests under way",
		ArgsUsage: "[HOSTLIST...]",
		Description: "It checks all.yml, asks the cloud, Terraform and Slurm, and changes nothing. Where " +
			"one of them does not answer it says so: " +
			"the exit code is 0 then, too, unless the declared cloud is not configured. " +
			"Cloud nodes that are powered down share one line, unless HOSTLIST or " +
			"--state names them. IMAGE is the declared image's name, " +
			"or the id of another one that the node has still, and then the one that it is to have. A node that " +
			"HOSTLIST and the filters pick is shown; where there are several, " +
			"it must pass each of them. docs/reference/status.md describes the fields of JSON and YAML.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "group", Usage: "only nodes of the node group `NAME`; may be repeated, or have commas"},
			&cli.StringSliceFlag{Name: "state",
				Usage: "only nodes that Slurm has in one of these states, in sinfo's words: `STATE`, as in drain,down"},
			&cli.BoolFlag{Name: "outdated", DisableDefaultText: true,
				Usage: "only nodes that differ from the declaration: another image, flavor or network, " +
					"a missing instance, …"},
			&cli.BoolFlag{Name: "failing", DisableDefaultText: true,
				Usage: "only nodes with which something went wrong last"},
			fullFlag(),
		},
		Action: func(c *cli.Context) error {
			picked, err := filterOf(c)
			if err != nil {
				return err
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			report, err := statusOf(c, s, picked)
			if err != nil {
				return err
			}
			report = report.Only(picked)
			problem := s.CloudConfigured() // printed below with its fix
			err = showTable(c, report, func(w io.Writer, wide bool, width int) error {
				return report.Write(w, status.Layout{
					Now: time.Now(), Wide: wide, Width: max(width, status.TableWidth),
					Verbose: c.Bool("verbose"), CloudTold: problem != nil,
				})
			})
			return errors.Join(err, problem)
		},
	})
}

// filterOf checks the parts of the filter that need no cluster.
func filterOf(c *cli.Context) (status.Filter, error) {
	f := status.Filter{Groups: c.StringSlice("group"), Outdated: c.Bool("outdated"), Failing: c.Bool("failing")}
	var err error
	if f.States, err = status.ParseStates(c.StringSlice("state")); err != nil {
		return f, usagef(c, "%v", err)
	}
	if c.Args().Present() {
		f.Nodes, err = hostlist(c)
	}
	return f, err
}

// statusOf takes a snapshot, and returns an error if the filter has unknown names: a mistyped name must not look like a
// healthy node.
func statusOf(c *cli.Context, s site.Site, f status.Filter) (report status.Report, err error) {
	groups := append([]reconfigure.NodeGroup{{Name: reconfigure.ControlGroup}}, s.Cluster.Groups...)
	for _, name := range f.Groups {
		if _, err := reconfigure.GroupNamed(groups, name); err != nil {
			return report, usagef(c, "%v", err)
		}
	}
	report, err = client.Status(c.Context, s, notes(c))
	if unknown := f.Nodes.Difference(report.Names()); err == nil && !unknown.Empty() {
		err = unknownNodes(c, unknown)
	}
	return report, err
}

// unknownNodes is the error for names that no source knows.
func unknownNodes(c *cli.Context, unknown nodeset.NodeSet) error {
	return usagef(c, "no node group in all.yml declares %s, and no instance is known of such a name", unknown)
}

// demandKnown returns an error for nodes that are not declared and had no instance.
func demandKnown(c *cli.Context, s site.Site, log *journal.Journal, nodes nodeset.NodeSet) error {
	unknown, err := client.UnknownNodes(c.Context, s, log, nodes)
	if err == nil && !unknown.Empty() {
		err = unknownNodes(c, unknown)
	}
	return err
}
