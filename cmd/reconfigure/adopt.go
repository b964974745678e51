package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

func adoptCommand() *cli.Command {
	return command(cli.Command{
		Name:  "adopt",
		Usage: "make servers that somebody else has made the instances of nodes",
		Description: "Each node needs a server with its name in the cloud, and a node group that declares it. The servers " +
			"stay as they are, with their image, flavor, port and security groups, and their jobs go on. A plan of Terraform " +
			"that changes nothing proves each; a server without a proof is refused with the differences, and is as before. " +
			"While it acts, a pause holds. After it was interrupted, it must be repeated. docs/guides/adopt.md has more.\n\n" +
			hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags:     []cli.Flag{workerFlag()},
		Action:    func(c *cli.Context) error { return takeOver(c, client.Adopt) },
	})
}

func releaseCommand() *cli.Command {
	return command(cli.Command{
		Name:  "release",
		Usage: "give up nodes whose instances go on without reconfigure",
		Description: "It is the way back of `reconfigure adopt`: Terraform's state and the map of nodes forget the nodes, " +
			"and the marks on their servers and ports are removed. Nothing else changes in the cloud. While it acts, a pause " +
			"holds. After it was interrupted, it must be repeated. docs/guides/adopt.md has more.\n\n" + hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags:     []cli.Flag{workerFlag()},
		Action:    func(c *cli.Context) error { return takeOver(c, client.Release) },
	})
}

// takeOver calls do for the nodes, and then starts a worker for the requests that were accepted meanwhile.
func takeOver(
	c *cli.Context, do func(context.Context, *site.Adapters, nodeset.NodeSet) (client.HandedOver, error),
) error {
	nodes, err := hostlist(c)
	if err != nil {
		return err
	}
	return withJournal(c, siteOf, func(s site.Site, log *journal.Journal) error {
		adapters := s.Adapters(log, logger(c))
		defer adapters.Close()
		done, err := do(c.Context, adapters, nodes)
		if err != nil {
			return notNow(c, err)
		}
		if err := show(c, done, printing(done.String())); err != nil {
			return err
		}
		if err := worker.Start(c.Context, s); err != nil {
			return fmt.Errorf("no worker could be started for what waits; `reconfigure continue` starts one: %w", err)
		}
		return done.Err()
	})
}
