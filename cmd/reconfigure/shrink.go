package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func shrinkCommand() *cli.Command {
	return command(cli.Command{
		Name:  "shrink",
		Usage: "make fewer of a group's nodes persistent",
		Description: "Lowers the group's min_nodes in all.yml and leaves everything else there as it " +
			"stands; then it removes the persistent nodes that are " +
			"too many, those with the highest numbers. Each is drained first, and its jobs are waited for; meanwhile " +
			"other requests go on. The nodes are cloud nodes " +
			"from then on. With the number that is there already, it removes what is too many.\n\n" + sizeHelp,
		ArgsUsage: "GROUP",
		Flags:     append(requestFlags(), append(sizeFlags(), drainTimeoutFlag())...),
		Action: func(c *cli.Context) error {
			timeout, err := drainTimeout(c)
			if err != nil {
				return err
			}
			request := func(s site.Site, g reconfigure.NodeGroup) (reconfigure.Request, error) {
				told, err := s.Told(c.Context)
				nodes := g.Nodes().Union(told.UndeclaredIn(s.Cluster, g.Name)).Difference(g.Persistent())
				return reconfigure.Request{
					Mode:    reconfigure.Shrink,
					Nodes:   nodes,
					Options: reconfigure.Options{DrainTimeout: timeout},
				}, err
			}
			return setSize(c, config.Size.Shrunk, request)
		},
	})
}
