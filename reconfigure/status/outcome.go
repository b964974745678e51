package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// WriteOutcome writes an outcome for people: nodes with the same result share a line, with the reason below. It does
// not write the error of the request as a whole.
func WriteOutcome(w io.Writer, r reconfigure.Request, o reconfigure.Outcome, width int) error {
	results := Results(o.Verdicts)
	var b strings.Builder
	fmt.Fprintf(&b, "request %s: %s after %s\n", r.ID, Headline(o), o.Finished.Sub(r.Submitted).Round(time.Second))
	column := 0
	for _, f := range results {
		column = max(column, utf8.RuneCountInString(Result(f.First)))
	}
	for _, f := range results {
		fmt.Fprintf(&b, "  %-*s  %s\n", column, Result(f.First), f.Nodes)
		for _, line := range text.Wrap(Why(f.First), width-4) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Headline returns the result of a request in a few words.
func Headline(o reconfigure.Outcome) string {
	switch {
	case o.Code == reconfigure.CodePartial:
		return "partly done"
	case o.Code == reconfigure.CodeDone && !slices.ContainsFunc(o.Verdicts, func(v reconfigure.Verdict) bool {
		return v.Status == reconfigure.StatusDone
	}):
		return "nothing to do"
	}
	return string(o.Code)
}

// Results groups the nodes with the same verdict, in the order of the verdicts.
func Results(verdicts []reconfigure.Verdict) []text.Group[reconfigure.Verdict] {
	return text.GroupNodes(verdicts, func(v reconfigure.Verdict) (string, reconfigure.Verdict) {
		node := v.Node
		v.Node = ""
		return node, v
	})
}

// Result returns the result for a node in a few words.
func Result(v reconfigure.Verdict) string {
	done := map[reconfigure.Action]string{
		reconfigure.Create: "created", reconfigure.Replace: "replaced", reconfigure.Reboot: "rebooted",
		reconfigure.Boot:      "booted",
		reconfigure.Configure: "configured", reconfigure.Remove: "removed", reconfigure.Capture: "imaged",
		reconfigure.Start: "started", reconfigure.Stop: "stopped",
		reconfigure.Drain: "drained", reconfigure.Undrain: "undrained", reconfigure.Adopt: "adopted",
		reconfigure.CheckHealth: "healthy",
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

// Why returns the phase in which a node failed, and the reason.
func Why(v reconfigure.Verdict) string {
	if v.Status == reconfigure.StatusFailed && v.Phase != "" {
		return fmt.Sprintf("at %s: %s", v.Phase, v.Class.Said(v.Reason))
	}
	return v.Class.Said(v.Reason)
}

// OutcomeError is the outcome of a request that did not end as asked. The nodes' reasons were shown with the outcome.
type OutcomeError struct {
	Outcome reconfigure.Outcome
	Logs    string // the folder with the details
}

func (e *OutcomeError) Error() string {
	o := e.Outcome
	if o.Code == reconfigure.CodeCancelled {
		return fmt.Sprintf("request %s was cancelled: %s", o.Request, o.Error)
	}
	if o.Error != "" {
		return fmt.Sprintf("request %s failed as a whole: %s\nfor details see %s", o.Request, o.Error, e.Logs)
	}
	bad, all := 0, 0
	for _, v := range o.Verdicts {
		nodes := v.Nodes().Len()
		if all += nodes; v.Status != reconfigure.StatusDone && v.Status != reconfigure.StatusUnchanged {
			bad += nodes
		}
	}
	return fmt.Sprintf("request %s failed for %d of %d nodes; for details see %s", o.Request, bad, all, e.Logs)
}
