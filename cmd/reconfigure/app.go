package main

import (
	"fmt"
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
		HideVersion:            true, // the version command prints the same
		HideHelpCommand:        true,
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "dir", Value: ".", EnvVars: []string{"RECONFIGURE_DIR"}, Usage: dirUsage},
			&cli.BoolFlag{Name: "json", Usage: jsonUsage, DisableDefaultText: true},
			outputFlag(),
			worker,
			&cli.BoolFlag{Name: "version", Usage: "print what this program was built from", DisableDefaultText: true},
			cli.HelpFlag, // the library omits it where we have our own help command
		},
		Commands: append(
			modeCommands(),
			planCommand(),
			attachCommand(),
			detachCommand(),
			adoptCommand(),
			releaseCommand(),
			statusCommand(),
			explainCommand(),
			historyCommand(),
			evidenceCommand(),
			jobsCommand(),
			reportCommand(),
			hostsCommand(),
			serveCommand(),
			waitCommand(),
			cancelCommand(),
			pauseCommand(),
			continueCommand(),
			campaignCommand(),
			reconcileCommand(),
			checkCommand(),
			checkNodesCommand(),
			imageCommand(),
			filesCommand(),
			inventoryCommand(),
			gateCommand(),
			workerCommand(),
			backupCommand(),
			restoreCommand(),
			recoverCommand(),
			initCommand(),
			completionCommand(),
			completeCommand(),
			manCommand(),
			versionCommand(),
			helpCommand(),
		),
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\nEXIT CODES:\n" + exitTable(),
		Action:                noCommand,
		OnUsageError:          onUsageError,
	}
}

const (
	dirUsage  = "the cluster's `DIRECTORY`: a site folder with all.yml, or a checkout"
	jsonUsage = "print results, and on standard error progress and errors, as JSON, one value a line"

	helpWidth = 100 // characters of a description's lines
)

// noCommand answers a call without a command, or with an unknown one.
func noCommand(c *cli.Context) error {
	switch {
	case c.Args().Present():
		return unknownCommand(c, c.Args().First())
	case c.Bool("version"):
		return showVersion(c)
	}
	c.App.Writer = c.App.ErrWriter // programs that read the output get no help text
	show := cli.ShowAppHelp
	if parent := c.Lineage()[1]; parent.Command != nil {
		show = func(c *cli.Context) error { return cli.ShowCommandHelp(parent, c.Command.Name) }
	}
	if err := show(c); err != nil {
		return err
	}
	return usagef(c, "a command is missing")
}

// unknownCommand returns the error for a word that is not a command of c.
func unknownCommand(c *cli.Context, word string) error {
	commands := c.App.VisibleCommands()
	if c.Command.Subcommands != nil {
		commands = c.Command.Subcommands
	}
	var names []string
	for _, command := range commands {
		names = append(names, command.Name)
	}
	return usagef(c, "there is no command %q%s", word, didYouMean("", word, names))
}

// onUsageError suggests a flag in place of an unknown one.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usagef(c, "%v", err)
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	var names []string
	for _, f := range slices.Concat(c.Command.Flags, c.App.Flags) {
		names = append(names, f.Names()...)
	}
	return usagef(c, "there is no flag --%s%s", name, didYouMean("--", name, names))
}

func didYouMean(prefix, word string, known []string) string {
	if near, ok := text.Nearest(word, known); ok {
		return fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return ""
}

// command adds the flags of all commands to a command, and makes it reject arguments if the command has none.
func command(c cli.Command) *cli.Command {
	action := c.Action
	if slices.Contains(pagedCommands, c.Name) {
		action = paged(action)
	}
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true // otherwise "help" and "h" would not work as names of nodes
	// These flags may also stand before the command, where they have their defaults.
	c.Flags = append(c.Flags, &cli.PathFlag{Name: "dir", Usage: dirUsage},
		&cli.BoolFlag{Name: "json", Usage: jsonUsage, DisableDefaultText: true}, outputFlag())
	c.Description = strings.Join(text.Wrap(c.Description, helpWidth), "\n")
	c.Action = func(ctx *cli.Context) error {
		if ctx.Command.ArgsUsage == "" && ctx.Args().Present() {
			return usagef(ctx, "%s takes no argument, but got %q", c.Name, ctx.Args().Slice())
		}
		if _, err := outputFormat(ctx); err != nil { // before anything is done
			return err
		}
		return action(ctx)
	}
	return &c
}

// directory returns --dir after the command, otherwise the one before it.
func directory(c *cli.Context) string {
	for _, level := range c.Lineage() {
		if dir := level.Path("dir"); dir != "" {
			return dir
		}
	}
	return ""
}

// wantsJSON reports whether --json is given after or before the command.
func wantsJSON(c *cli.Context) bool {
	return slices.ContainsFunc(c.Lineage(), func(level *cli.Context) bool { return level.Bool("json") })
}

// hostlist returns the nodes that the arguments name.
func hostlist(c *cli.Context) (nodeset.NodeSet, error) {
	if !c.Args().Present() {
		return nodeset.NodeSet{}, usagef(c, "%s needs a hostlist, for instance node[01-04]", c.Command.Name)
	}
	nodes, err := nodeset.Parse(c.Args().Slice()...)
	if err != nil {
		return nodeset.NodeSet{}, usagef(c, "%v", err)
	}
	return nodes, nil
}

// declared returns an error for nodes that no group declares.
func declared(c *cli.Context, cluster reconfigure.Cluster, nodes nodeset.NodeSet) error {
	if unknown := nodes.Difference(cluster.Nodes()); !unknown.Empty() {
		return usagef(c, "no node group in all.yml declares %s", unknown)
	}
	return nil
}
