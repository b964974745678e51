package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

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
		"one --frobnicate":              "there is no flag --frobnicate",
		"one two --to three":            `invalid value "three" for flag -to: parse error`,
		"--to 3":                        "[] 3 false 24h0m0s",
		"-":                             "[-] 0 false 24h0m0s",
		"one -vt 3 two":                 "[one two] 3 true 24h0m0s",
		"one --unto 3":                  "there is no flag --unto; did you mean --to?",
		"x one --by -3":                 "there is no flag --by",
		"one --to -3":                   "[one] -3 false 24h0m0s",
		"one --help":                    "help",
		"--to 3 one -h two":             "help",
	} {
		t.Run(call, func(t *testing.T) {
			got := ""
			app := cli.NewApp()
			app.ExitErrHandler = func(*cli.Context, error) {}
			var help strings.Builder
			app.Writer, app.UseShortOptionHandling = &help, true
			app.Commands = []*cli.Command{command(cli.Command{
				Name:      "x",
				ArgsUsage: "ANY",
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "to", Aliases: []string{"t"}},
					&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}},
					&cli.DurationFlag{Name: "drain", Value: 24 * time.Hour},
				},
				Action: func(c *cli.Context) error {
					got = fmt.Sprint(c.Args().Slice(), c.Int("to"), c.Bool("verbose"), c.Duration("drain"))
					return nil
				},
			})}
			if err := runApp(t.Context(), app, append([]string{"reconfigure", "x"}, strings.Fields(call)...)); err != nil {
				got = err.Error()
			}
			if help.Len() > 0 {
				got = "help"
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
