package main

import "github.com/urfave/cli/v2"

// helpCommand replaces the library's, which does not return a usageError for an unknown command.
func helpCommand() *cli.Command {
	return command(cli.Command{
		Name:        "help",
		Usage:       "describe a command, or all of them and the exit codes",
		Description: "`reconfigure COMMAND --help` says the same.",
		ArgsUsage:   "[COMMAND]",
		Action: func(c *cli.Context) error {
			switch {
			case !c.Args().Present():
				return cli.ShowAppHelp(c)
			case c.NArg() > 1:
				return usagef(c, "help takes one command at most, but got %q", c.Args().Slice())
			case c.App.Command(c.Args().First()) == nil:
				return unknownCommand(c.Lineage()[1], c.Args().First())
			}
			return cli.ShowCommandHelp(c.Lineage()[1], c.Args().First())
		},
	})
}
