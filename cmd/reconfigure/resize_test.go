package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestSizeOfAGroup(t *testing.T) {
	g := reconfigure.NodeGroup{Name: "standard", Min: 3, Max: 8}
	for name, c := range map[string]struct {
		become func(reconfigure.NodeGroup, size) (int, error)
		wanted size
		want   int
		err    string
	}{
		"enlarge to more":                {enlarged, size{nodes: 5}, 5, ""},
		"enlarge to what it is":          {enlarged, size{nodes: 3}, 3, ""},
		"enlarge to all":                 {enlarged, size{nodes: 8}, 8, ""},
		"enlarge to less":                {enlarged, size{nodes: 2}, 0, "`reconfigure shrink standard --to 2`"},
		"enlarge to more than there may": {enlarged, size{nodes: 9}, 0, "raise max_nodes"},
		"enlarge by some":                {enlarged, size{nodes: 5, relative: true}, 8, ""},
		"enlarge by too many":            {enlarged, size{nodes: 6, relative: true}, 0, "raise max_nodes"},
		"enlarge by all numbers":         {enlarged, size{nodes: 1<<63 - 1, relative: true}, 0, "raise max_nodes"},
		"shrink to less":                 {shrunk, size{nodes: 1}, 1, ""},
		"shrink to what it is":           {shrunk, size{nodes: 3}, 3, ""},
		"shrink to none":                 {shrunk, size{nodes: 0}, 0, ""},
		"shrink to more":                 {shrunk, size{nodes: 4}, 0, "`reconfigure enlarge standard --to 4`"},
		"shrink by some":                 {shrunk, size{nodes: 3, relative: true}, 0, ""},
		"shrink by too many":             {shrunk, size{nodes: 4, relative: true}, 0, "no 4 nodes to take away"},
		"shrink by all numbers":          {shrunk, size{nodes: 1<<63 - 1, relative: true}, 0, "to take away"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.become(g, c.wanted)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d, %v; want %d, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	for call, want := range map[string]string{
		"one":                           "[one] 0 false 24h0m0s",
		"--to 3 one":                    "[one] 3 false 24h0m0s",
		"one --to 3":                    "[one] 3 false 24h0m0s",
		"one -t 3":                      "[one] 3 false 24h0m0s",
		"one --to=3 -v two --drain 3h":  "[one two] 3 true 3h0m0s",
		"-v one --to 3 two three":       "[one two three] 3 true 24h0m0s",
		"--to 3 one --to 4":             "[one] 4 false 24h0m0s",
		"one --verbose --verbose=false": "[one] 0 false 24h0m0s",
		"one -- --to":                   "[one --to] 0 false 24h0m0s",
		"one --to":                      "flag needs an argument: -to",
		"one --frobnicate":              "flag provided but not defined: -frobnicate",
		"one two --to three":            `invalid value "three" for flag -to: parse error`,
		"--to 3":                        "[] 3 false 24h0m0s",
	} {
		t.Run(call, func(t *testing.T) {
			got := ""
			app := cli.NewApp()
			app.ExitErrHandler = func(*cli.Context, error) {}
			app.Commands = []*cli.Command{command(cli.Command{
				Name:      "x",
				ArgsUsage: "ANY",
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "to", Aliases: []string{"t"}},
					&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}},
					&cli.DurationFlag{Name: "drain", Value: 24 * time.Hour},
				},
				Action: anywhere(func(c *cli.Context, arguments []string) error {
					got = fmt.Sprint(arguments, c.Int("to"), c.Bool("verbose"), c.Duration("drain"))
					return nil
				}),
			})}
			if err := app.Run(append([]string{"reconfigure", "x"}, strings.Fields(call)...)); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
