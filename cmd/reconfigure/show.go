package main

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// newView is the view that fits: a live picture on a terminal, a log elsewhere, and where every step is to be kept.
func newView(c *cli.Context, r reconfigure.Request) status.View {
	if text.IsTerminal(c.App.ErrWriter) && !wantsJSON(c) && !c.Bool("verbose") {
		return status.NewLiveView(c.App.ErrWriter, r, func() (int, int) { return text.TerminalSize(c.App.ErrWriter) })
	}
	return status.NewLogView(c.Context, logger(c), r, c.Bool("verbose"))
}

// showOutcome prints an outcome; one that is not as asked is also the error of the call.
func showOutcome(c *cli.Context, s site.Site, r reconfigure.Request, o reconfigure.Outcome) error {
	var err error
	if wantsJSON(c) {
		if o.Verdicts == nil {
			o.Verdicts = []reconfigure.Verdict{} // programs that read it get a list, also an empty one
		}
		err = json.NewEncoder(c.App.Writer).Encode(o)
	} else {
		width, _ := text.TerminalSize(c.App.Writer)
		err = status.WriteOutcome(c.App.Writer, r, o, width)
	}
	if err == nil && o.Code != reconfigure.CodeDone {
		err = &status.OutcomeError{Outcome: o, Logs: s.LogDir()}
	}
	return err
}
