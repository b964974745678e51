package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// newView returns the display of a request: a live one on a terminal; otherwise, or with --verbose, a log.
func newView(c *cli.Context, r reconfigure.Request) status.View {
	if text.IsTerminal(c.App.ErrWriter) && !wantsJSON(c) && !c.Bool("verbose") {
		return status.NewLiveView(c.App.ErrWriter, r, func() (int, int) { return text.TerminalSize(c.App.ErrWriter) })
	}
	return status.NewLogView(c.Context, logger(c), r, c.Bool("verbose"))
}

func verboseFlag(when string) cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, DisableDefaultText: true,
		Usage: when + "show each step of Terraform and Ansible, too"}
}

// show prints a value: as JSON with --json, otherwise with write, for people.
func show(c *cli.Context, value any, write func(io.Writer) error) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(value)
	}
	return write(c.App.Writer)
}

// printing returns a function that prints these words as fmt.Fprint does.
func printing(words ...any) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprint(w, words...)
		return err
	}
}

// showOutcome prints an outcome and returns an error unless all nodes are as requested.
func showOutcome(c *cli.Context, s site.Site, r reconfigure.Request, o reconfigure.Outcome) error {
	encoded := o
	if o.Verdicts == nil {
		encoded.Verdicts = []reconfigure.Verdict{} // JSON has a list even if it is empty
	}
	err := show(c, encoded, func(w io.Writer) error {
		width, _ := text.TerminalSize(w)
		return status.WriteOutcome(w, r, o, width)
	})
	if err == nil && o.Code != reconfigure.CodeDone {
		err = &status.OutcomeError{Outcome: o, Logs: s.LogDir()}
	}
	return err
}
