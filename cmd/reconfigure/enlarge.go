package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func enlargeCommand() *cli.Command {
	return command(cli.Command{
		Name:  "enlarge",
		Usage: "make more of a group's nodes persistent",
		Description: "Raises the group's min_nodes in group_vars/all.yml and leaves everything else there as it " +
			"stands; then it makes the nodes that are missing. A cloud " +
			"node that is there keeps its instance and its jobs. With the number that is there already, it makes " +
			"what is missing.\n\n" + sizeHelp,
		ArgsUsage: "GROUP",
		Flags:     append(requestFlags(), sizeFlags()...),
		Action: anywhere(func(c *cli.Context, arguments []string) error {
			request := func(s site.Site, g reconfigure.NodeGroup) (reconfigure.Request, error) {
				return reconfigure.Request{Mode: reconfigure.Enlarge, Nodes: g.Persistent()}, nil
			}
			return setSize(c, arguments, enlarged, request)
		}),
	})
}

// enlarged is min_nodes as it is wanted for a group that is to grow.
func enlarged(g reconfigure.NodeGroup, wanted size) (int, error) {
	switch {
	case wanted.relative && wanted.nodes > g.Max-g.Min, wanted.nodes > g.Max:
		return 0, fmt.Errorf(
			"max_nodes of %s is %d, and min_nodes %d: raise max_nodes in group_vars/all.yml first",
			g.Name,
			g.Max,
			g.Min,
		)
	case wanted.relative:
		return g.Min + wanted.nodes, nil
	case wanted.nodes < g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is %d, which is more already: `reconfigure shrink %s --to %d` makes it less",
			g.Name,
			g.Min,
			g.Name,
			wanted.nodes,
		)
	}
	return wanted.nodes, nil
}
