package main

import (
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand() *cli.Command {
	return command(cli.Command{
		Name:  "version",
		Usage: "print what this program was built from",
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintln(c.App.Writer, "reconfigure", version())
			return err
		},
	})
}

// version is what Go's build put into the binary: a tag, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return fmt.Sprintf("%s (%s)", info.Main.Version, s.Value)
		}
	}
	return info.Main.Version
}
