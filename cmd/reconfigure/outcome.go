package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// showOutcome prints an outcome; one that is not as asked is also the error of the call.
func showOutcome(c *cli.Context, s site, r reconfigure.Request, o reconfigure.Outcome) error {
	var err error
	if wantsJSON(c) {
		if o.Verdicts == nil {
			o.Verdicts = []reconfigure.Verdict{} // a list is a list, for those who read it by a program
		}
		err = json.NewEncoder(c.App.Writer).Encode(o)
	} else {
		width, _ := terminalSize(c.App.Writer)
		err = writeOutcome(c.App.Writer, r, o, width)
	}
	if err == nil && o.Code != reconfigure.CodeDone {
		err = &outcomeError{outcome: o, logs: s.state("log")}
	}
	return err
}

// writeOutcome writes an outcome for people: nodes of which the same is told together, and reasons below them. What kept the whole request from being carried out
// is left to the error.
func writeOutcome(w io.Writer, r reconfigure.Request, o reconfigure.Outcome, width int) error {
	fates := fatesOf(o.Verdicts)
	var b strings.Builder
	fmt.Fprintf(&b, "request %s: %s after %s\n", r.ID, headline(o), o.Finished.Sub(r.Submitted).Round(time.Second))
	column := 0
	for _, f := range fates {
		column = max(column, utf8.RuneCountInString(result(f.first)))
	}
	for _, f := range fates {
		fmt.Fprintf(&b, "  %-*s  %s\n", column, result(f.first), f.nodes)
		for _, line := range wrap(why(f.first), width-4) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func headline(o reconfigure.Outcome) string {
	switch {
	case o.Code == reconfigure.CodePartial:
		return "done in part"
	case o.Code == reconfigure.CodeDone && !slices.ContainsFunc(o.Verdicts, func(v reconfigure.Verdict) bool { return v.Status == reconfigure.StatusDone }):
		return "nothing to do"
	}
	return string(o.Code)
}

// fatesOf puts the nodes of which the same is told together, in the order of the verdicts.
func fatesOf(verdicts []reconfigure.Verdict) []company[reconfigure.Verdict] {
	return alike(verdicts, func(v reconfigure.Verdict) (string, reconfigure.Verdict) {
		node := v.Node
		v.Node = ""
		return node, v
	})
}

// result says what became of a node.
func result(v reconfigure.Verdict) string {
	done := map[reconfigure.Action]string{
		reconfigure.Create: "created", reconfigure.Replace: "replaced", reconfigure.Reboot: "rebooted",
		reconfigure.Configure: "configured", reconfigure.Remove: "removed",
		reconfigure.Drain: "drained", reconfigure.Undrain: "undrained",
	}[v.Action]
	switch {
	case done == "":
		return string(v.Status)
	case v.Status == reconfigure.StatusDone:
		return done
	case v.Status == reconfigure.StatusFailed:
		return "not " + done
	}
	return fmt.Sprintf("%s, not %s", v.Status, done)
}

// why says where a node's way ended, and the reason.
func why(v reconfigure.Verdict) string {
	if v.Status == reconfigure.StatusFailed && v.Phase != "" {
		return fmt.Sprintf("at %s: %s", v.Phase, v.Class.Said(v.Reason))
	}
	return v.Class.Said(v.Reason)
}

// wrap breaks text into lines of at most width characters where it has blanks, and keeps the breaks that it has. What has no blank is not broken: it may be an
// address to copy. Text of no characters has no lines.
func wrap(text string, width int) []string {
	var lines []string
	for paragraph := range strings.Lines(strings.TrimSpace(printable(text))) {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
		}
		lines = append(lines, line)
	}
	return lines
}
