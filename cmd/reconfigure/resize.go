package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func resizeCommand() *cli.Command {
	return command(cli.Command{
		Name:  "resize",
		Usage: "make the persistent nodes those that all.yml declares now, after an edit by hand",
		Description: "In the groups, or in all of them, it makes the persistent nodes that are missing, and removes " +
			"those that are too many or are declared no more. A node " +
			"that goes is drained first, and its jobs are waited for; meanwhile other requests go on. Nodes that " +
			"become persistent, or cloud nodes, keep their jobs.",
		ArgsUsage: "[GROUP...]",
		Flags:     append(requestFlags(), drainTimeoutFlag()),
		Action: func(c *cli.Context) error {
			groups := c.Args().Slice()
			timeout, err := drainTimeout(c)
			if err != nil {
				return err
			}
			s, err := siteOf(c)
			if err == nil {
				err = notAttached(c, s)
			}
			if err != nil {
				return err
			}
			told, err := s.Told(c.Context)
			if err != nil {
				return err
			}
			nodes, err := told.InGroups(s.Cluster, groups)
			if err != nil {
				return usagef(c, "%v", err)
			}
			return askFor(
				c,
				s,
				reconfigure.Request{
					Mode:    reconfigure.Resize,
					Nodes:   nodes,
					Options: reconfigure.Options{DrainTimeout: timeout},
				},
				nil,
			)
		},
	})
}

const sizeHelp = "After an edit of min_nodes by hand, `reconfigure resize` follows it."

func sizeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "to", Usage: "have this `NUMBER` of persistent nodes", DefaultText: "none"},
		&cli.IntFlag{Name: "by", DefaultText: "none",
			Usage: "have this `NUMBER` of persistent nodes more, or less, than now"},
	}
}

func sizeOf(c *cli.Context) (config.Size, error) {
	to, by := c.IsSet("to"), c.IsSet("by")
	switch {
	case to == by:
		return config.Size{}, usagef(c, "%s needs either --to or --by", c.Command.Name)
	case to && c.Int("to") < 0:
		return config.Size{}, usagef(c, "--to must be 0 or more, and not %d", c.Int("to"))
	case by && c.Int("by") <= 0:
		return config.Size{}, usagef(c, "--by must be 1 or more, and not %d", c.Int("by"))
	case by:
		return config.Size{Nodes: c.Int("by"), Relative: true}, nil
	}
	return config.Size{Nodes: c.Int("to")}, nil
}

// setSize declares another min_nodes for a group, and requests the changes that follow from it. It does so even if the
// size is declared already: the last attempt may have failed, or ended after the edit.
func setSize(
	c *cli.Context,
	become func(config.Size, reconfigure.NodeGroup) (int, error),
	request func(site.Site, reconfigure.NodeGroup) (reconfigure.Request, error),
) error {
	if c.NArg() != 1 {
		return usagef(c, "%s needs one node group, but got %q", c.Command.Name, c.Args().Slice())
	}
	wanted, err := sizeOf(c)
	if err != nil {
		return err
	}
	s, err := siteOf(c)
	if err == nil {
		err = notAttached(c, s)
	}
	if err != nil {
		return err
	}
	g, err := reconfigure.GroupNamed(s.Cluster.Groups, c.Args().First())
	if err != nil {
		return usagef(c, "%v", err)
	}
	n, err := become(wanted, g)
	if err != nil {
		return usagef(c, "%v", err)
	}
	edit, err := client.NewEdit(s, g, n)
	if err != nil {
		return err
	}
	s.Cluster, g.Min = s.Cluster.WithMin(g.Name, n), n
	r, err := request(s, g)
	if err != nil {
		return err
	}
	return askFor(c, s, r, edit)
}

// askFor makes the request, unless it is empty.
func askFor(c *cli.Context, s site.Site, r reconfigure.Request, e *client.Edit) error {
	switch {
	case !r.Nodes.Empty():
		return ask(c, s, r, e)
	case c.Bool("dry-run"):
		nothing := status.Preview{Nodes: []status.PreviewNode{}}
		return show(c, nothing, nothing.Write)
	}
	return show(c, reconfigure.Outcome{
		Verdicts: []reconfigure.Verdict{}, Code: reconfigure.CodeDone, Finished: time.Now(),
	}, printing("nothing to do\n"))
}
