package main

import "github.com/urfave/cli/v2"

func filesCommand() *cli.Command {
	return command(cli.Command{
		Name:  "files",
		Usage: "show which of the site's own files nodes get",
		Description: "Of the files in ansible/files/site, named NAME.PRIORITY.NODESET, a node gets the best match for each " +
			"NAME when it is configured. docs/guides/sitefiles.md has more.",
		ArgsUsage: "HOSTLIST...",
		Action: func(c *cli.Context) error {
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			if err := declared(c, s.Cluster, nodes); err != nil {
				return err
			}
			files, err := s.SiteFiles(nodes)
			if err != nil {
				return err
			}
			return show(c, files, files.Write)
		},
	})
}
