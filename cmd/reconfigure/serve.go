package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

func serveCommand() *cli.Command {
	const standard = "127.0.0.1:8077"
	return command(cli.Command{
		Name:  "serve",
		Usage: "serve a page for a browser that shows the cluster: what needs a person, a timeline of the nodes, requests, jobs",
		Description: "It reads the journal, asks Slurm, the cloud and Terraform while a page is open, and changes " +
			"nothing. It has no login and no encryption, and listens only on the loopback or a Unix socket, " +
			"which its group may read and write: a proxy with a login belongs before it. /metrics has the " +
			"metrics of the worker. It ends by Ctrl-C. See docs/guides/page.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: standard,
				Usage: "`ADDRESS`: HOST:PORT of the loopback, or the absolute path of a Unix socket"},
		},
		Action: func(c *cli.Context) error {
			if err := web.CheckAddress(c.String("listen")); err != nil {
				return usagef(c, "%v", err)
			}
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			l, err := web.Listen(c.Context, c.String("listen"))
			if err != nil {
				return err
			}
			log := notes(c)
			log.InfoContext(c.Context, "the page is served", "address", l.Addr().String())
			return client.Serve(c.Context, s, log, l)
		},
	})
}
