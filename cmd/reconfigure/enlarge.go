package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func enlargeCommand() *cli.Command {
	return command(cli.Command{
		Name:  "enlarge",
		Usage: "make more of a group's nodes persistent",
		Description: "Raises the group's min_nodes in all.yml and leaves everything else there as it " +
			"stands; then it makes the nodes that are missing. A cloud " +
			"node that is there keeps its instance and its jobs. With the number that is there already, it makes " +
			"what is missing.\n\n" + sizeHelp,
		ArgsUsage: "GROUP",
		Flags:     append(requestFlags(), sizeFlags()...),
		Action: func(c *cli.Context) error {
			request := func(s site.Site, g reconfigure.NodeGroup) (reconfigure.Request, error) {
				return reconfigure.Request{Mode: reconfigure.Enlarge, Nodes: g.Persistent()}, nil
			}
			return setSize(c, config.Size.Enlarged, request)
		},
	})
}
