package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand() *cli.Command {
	return command(cli.Command{
		Name:  "version",
		Usage: "print what this program was built from",
		Action: func(c *cli.Context) error {
			if wantsJSON(c) {
				return json.NewEncoder(c.App.Writer).Encode(version())
			}
			_, err := fmt.Fprintln(c.App.Writer, "reconfigure", version())
			return err
		},
	})
}

// build is what Go put into the binary: the module's version, and the commit where it was built from a checkout.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

func (b build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	return fmt.Sprintf("%s (%s)", b.Version, b.Commit)
}

func version() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{Version: "unknown"}
	}
	b := build{Version: info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}
