package main

import (
	"github.com/urfave/cli/v2"
)

// planCommand has, as subcommands, each command that changes something, with --dry-run; and the plans of an upgrade and
// of an attachment.
func planCommand() *cli.Command {
	c := &cli.Command{
		Name:                   "plan",
		Usage:                  "show what a command would do, and do nothing: `reconfigure plan update node01`",
		UseShortOptionHandling: true,
		HideHelpCommand:        true,
		OnUsageError:           onUsageError,
		Action:                 noCommand,
		Subcommands:            modeCommands(),
	}
	for _, mode := range c.Subcommands {
		mode.Before = func(c *cli.Context) error { return c.Set("dry-run", "true") }
	}
	c.Subcommands = append(c.Subcommands, planUpgradeCommand(), planAttachCommand())
	return c
}

// modeCommands returns the commands that make requests.
func modeCommands() []*cli.Command {
	return []*cli.Command{
		deployCommand(), resumeCommand(), suspendCommand(), updateCommand(),
		enlargeCommand(), shrinkCommand(), resizeCommand(), destroyCommand(),
	}
}
