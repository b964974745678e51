package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:                   "reconfigure",
		Usage:                  "make and remove the nodes of a Slurm cluster on OpenStack",
		Version:                version(),
		Reader:                 stdin,
		Writer:                 stdout,
		ErrWriter:              stderr,
		HideVersion:            true, // there is a command for it
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "dir", Value: ".", EnvVars: []string{"RECONFIGURE_DIR"}, Usage: "the cluster's `DIRECTORY`: the checkout with group_vars/all.yml"},
			&cli.BoolFlag{Name: "json", Usage: "print results and progress as JSON, one value a line"},
		},
		Commands: []*cli.Command{
			deployCommand(), resumeCommand(), suspendCommand(), destroyCommand(),
			statusCommand(), inventoryCommand(), workerCommand(), versionCommand(),
		},
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\nEXIT CODES:\n" + exitTable(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("there is no command %q", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError: onUsageError,
		// The library would call os.Exit by itself for an error that has an exit code.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	return usagef("%v", err)
}

// command completes a command: its flags are checked, and arguments are refused unless it takes a hostlist.
func command(c cli.Command) *cli.Command {
	action := c.Action
	c.OnUsageError = onUsageError
	c.Action = func(ctx *cli.Context) error {
		if ctx.Command.ArgsUsage == "" && ctx.Args().Present() {
			return usagef("%s takes no argument, but got %q", c.Name, ctx.Args().Slice())
		}
		return action(ctx)
	}
	return &c
}

// hostlist reads the arguments as node names, all of them declared.
func hostlist(c *cli.Context) (nodeset.NodeSet, error) {
	for _, arg := range c.Args().Slice() {
		// The library stops looking for flags at the first argument: what was meant as one must not be taken for a node.
		if strings.HasPrefix(arg, "-") {
			return nodeset.NodeSet{}, usagef("%q stands behind the hostlist: flags go before it", arg)
		}
	}
	if !c.Args().Present() {
		return nodeset.NodeSet{}, usagef("%s needs a hostlist, for instance node[01-04]", c.Command.Name)
	}
	nodes, err := nodeset.Parse(c.Args().Slice()...)
	if err != nil {
		return nodeset.NodeSet{}, usagef("%v", err)
	}
	return nodes, nil
}

// declared refuses nodes that no group declares.
func declared(cluster reconfigure.Cluster, nodes nodeset.NodeSet) error {
	if unknown := nodes.Difference(cluster.Nodes()); !unknown.Empty() {
		return usagef("no node group in group_vars/all.yml declares %s", unknown)
	}
	return nil
}
