package main

import (
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

func outputFlag() cli.Flag {
	return &cli.StringFlag{
		Name:    "output",
		Aliases: []string{"o"},
		Usage: "print results as `FORMAT`: table, wide (all columns, and a line for everything), json, yaml or, for " +
			"report, csv",
		DefaultText: "table",
	}
}

// outputFormat returns the format of results: --output after the command, otherwise before it; --json selects one of
// them too.
func outputFormat(c *cli.Context) (status.Format, error) {
	name, given := "", false
	for _, level := range c.Lineage() {
		if given = level.IsSet("output"); given {
			name = level.String("output")
			break
		}
	}
	format, err := status.ParseFormat(name, given, wantsJSON(c))
	if err == nil && format == status.FormatCSV && c.Command.Name != reportName {
		err = fmt.Errorf("only %s has the output format csv", reportName)
	}
	if err != nil {
		return "", usagef(c, "%v", err)
	}
	return format, nil
}

// show prints a value in the requested format; for people, it prints what write writes.
func show(c *cli.Context, value any, write func(io.Writer) error) error {
	return showTable(c, value, func(w io.Writer, _ bool, _ int) error { return write(w) })
}

// showTable is show for values that people see in a table.
func showTable(c *cli.Context, value any, table status.Table) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	return format.Write(c.App.Writer, value, table)
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
