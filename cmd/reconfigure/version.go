package main

import (
	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
)

func versionCommand() *cli.Command {
	return command(cli.Command{
		Name:        "version",
		Usage:       "print what this program was built from",
		Description: "`reconfigure --version` prints the same.",
		Action:      showVersion,
	})
}

func showVersion(c *cli.Context) error {
	version := client.Version()
	return show(c, version, printing("reconfigure ", version, "\n"))
}
