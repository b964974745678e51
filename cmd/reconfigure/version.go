package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func versionCommand() *cli.Command {
	return command(cli.Command{
		Name:  "version",
		Usage: "print what this program was built from",
		Action: func(c *cli.Context) error {
			if wantsJSON(c) {
				return json.NewEncoder(c.App.Writer).Encode(site.Version())
			}
			_, err := fmt.Fprintln(c.App.Writer, "reconfigure", site.Version())
			return err
		},
	})
}
