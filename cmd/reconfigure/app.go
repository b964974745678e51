package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	worker := workerFlag()
	worker.EnvVars = []string{"RECONFIGURE_WORKER"}
	return &cli.App{
		Name:                   "reconfigure",
		Usage:                  "make and remove the nodes of a Slurm cluster in a cloud",
		UsageText:              "reconfigure [--dir DIRECTORY] [--json] COMMAND [options] [HOSTLIST...]",
		Version:                client.Version().String(),
		Reader:                 stdin,
		Writer:                 stdout,
		ErrWriter:              stderr,
		HideVersion:            true, // there are commands for both
		HideHelpCommand:        true,
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "dir", Value: ".", EnvVars: []string{"RECONFIGURE_DIR"}, Usage: dirUsage},
			&cli.BoolFlag{Name: "json", Usage: jsonUsage, DisableDefaultText: true},
			worker,
			cli.HelpFlag, // the library leaves it out where there is a help command of our own
		},
		Commands: append(
			modeCommands(),
			planCommand(),
			statusCommand(),
			evidenceCommand(),
			jobsCommand(),
			reportCommand(),
			waitCommand(),
			cancelCommand(),
			pauseCommand(),
			continueCommand(),
			campaignCommand(),
			reconcileCommand(),
			checkCommand(),
			imageCommand(),
			filesCommand(),
			inventoryCommand(),
			gateCommand(),
			workerCommand(),
			versionCommand(),
			helpCommand(),
		),
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\nEXIT CODES:\n" + exitTable(),
		Action:                noCommand,
		OnUsageError:          onUsageError,
	}
}

const (
	dirUsage  = "the cluster's `DIRECTORY`: the checkout with group_vars/all.yml"
	jsonUsage = "print results, and on standard error progress and errors, as JSON, one value a line"

	helpWidth = 100 // characters of a description's lines
)

// noCommand answers a call without a command, or with one that is not there.
func noCommand(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(c, "there is no command %q", c.Args().First())
	}
	c.App.Writer = c.App.ErrWriter // the help was not asked for: whoever reads the output wants something else
	if err := cli.ShowAppHelp(c); err != nil {
		return err
	}
	return usagef(c, "a command is missing")
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef(c, "%v", err)
}

// command completes a command: it takes the flags that all have, its flags are checked, and arguments are refused
// unless it has some.
func command(c cli.Command) *cli.Command {
	action := c.Action
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true // else a node called "help", or "h", would be one
	// These may stand before the command, too, and have their defaults there.
	c.Flags = append(c.Flags, &cli.PathFlag{Name: "dir", Usage: dirUsage},
		&cli.BoolFlag{Name: "json", Usage: jsonUsage, DisableDefaultText: true})
	c.Description = strings.Join(text.Wrap(c.Description, helpWidth), "\n")
	c.Action = func(ctx *cli.Context) error {
		if ctx.Command.ArgsUsage == "" && ctx.Args().Present() {
			return usagef(ctx, "%s takes no argument, but got %q", c.Name, ctx.Args().Slice())
		}
		return action(ctx)
	}
	return &c
}

// directory is the cluster directory that was named behind the command, else the one before it.
func directory(c *cli.Context) string {
	for _, level := range c.Lineage() {
		if dir := level.Path("dir"); dir != "" {
			return dir
		}
	}
	return ""
}

// wantsJSON reports whether --json stands behind the command or before it.
func wantsJSON(c *cli.Context) bool {
	return slices.ContainsFunc(c.Lineage(), func(level *cli.Context) bool { return level.Bool("json") })
}

// anywhere is the action of a command whose flags may stand behind its arguments, too: `enlarge standard --to 5`.
func anywhere(action func(c *cli.Context, arguments []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		arguments, err := argumentsAmongFlags(c)
		if err != nil {
			return err
		}
		if c.Bool(cli.HelpFlag.Names()[0]) {
			return cli.ShowCommandHelp(c.Lineage()[1], c.Command.Name)
		}
		return action(c, arguments)
	}
}

// argumentsAmongFlags is the arguments of a command, and sets the flags behind them. The library stops looking for
// flags at the first argument, so that what is behind each is read anew.
func argumentsAmongFlags(c *cli.Context) ([]string, error) {
	var arguments []string
	for rest := c.Args().Slice(); len(rest) > 0; {
		arguments = append(arguments, rest[0])
		set := flag.NewFlagSet(c.Command.Name, flag.ContinueOnError)
		set.SetOutput(io.Discard) // the error says it all
		for _, f := range c.Command.Flags {
			if err := f.Apply(set); err != nil {
				return nil, err
			}
		}
		if err := set.Parse(rest[1:]); err != nil {
			return nil, usagef(c, "%v", err)
		}
		if err := adopt(c, set); err != nil {
			return nil, usagef(c, "%v", err)
		}
		rest = set.Args()
	}
	return arguments, nil
}

// adopt sets a command's flags as they were given in the set, by their first names: the other ones are known to the
// library only while it parses.
func adopt(c *cli.Context, set *flag.FlagSet) (err error) {
	set.Visit(func(given *flag.Flag) {
		i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), given.Name) })
		err = errors.Join(err, c.Set(c.Command.Flags[i].Names()[0], given.Value.String()))
	})
	return err
}

// hostlist reads the arguments as node names.
func hostlist(c *cli.Context) (nodeset.NodeSet, error) {
	for _, arg := range c.Args().Slice() {
		// The library stops looking for flags at the first argument: what was meant as one must not be taken for a
		// node.
		if strings.HasPrefix(arg, "-") {
			return nodeset.NodeSet{}, usagef(c, "%q stands behind the hostlist: flags go before it", arg)
		}
	}
	if !c.Args().Present() {
		return nodeset.NodeSet{}, usagef(c, "%s needs a hostlist, for instance node[01-04]", c.Command.Name)
	}
	nodes, err := nodeset.Parse(c.Args().Slice()...)
	if err != nil {
		return nodeset.NodeSet{}, usagef(c, "%v", err)
	}
	return nodes, nil
}

// declared refuses nodes that no group declares.
func declared(c *cli.Context, cluster reconfigure.Cluster, nodes nodeset.NodeSet) error {
	if unknown := nodes.Difference(cluster.Nodes()); !unknown.Empty() {
		return usagef(c, "no node group in group_vars/all.yml declares %s", unknown)
	}
	return nil
}
