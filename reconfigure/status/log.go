package status

import (
	"context"
	"log/slog"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// LogView logs events. Nodes with the same event share a line.
type LogView struct {
	ctx     context.Context
	log     *slog.Logger
	sieve   sieve
	verbose bool
}

// NewLogView logs that the request was submitted. A verbose view also logs each step of Terraform and Ansible.
func NewLogView(ctx context.Context, log *slog.Logger, r reconfigure.Request, verbose bool) LogView {
	log = log.With("request", r.ID)
	args := []any{"mode", r.Mode}
	if !r.Nodes.Empty() {
		args = append(args, "nodes", r.Nodes)
	}
	log.InfoContext(ctx, "submitted", args...)
	return LogView{ctx: ctx, log: log, sieve: newSieve(), verbose: verbose}
}

// Events logs a line for each kind of event.
func (v LogView) Events(events []reconfigure.Event) {
	told := slices.DeleteFunc(
		slices.Clone(events),
		func(e reconfigure.Event) bool { return v.sieve.step(e) && !v.verbose },
	)
	for _, one := range grouped(told) {
		v.write(one)
	}
}

// write logs one line. Its message is the event's level, such as "begun", or the text of a note.
func (v LogView) write(told text.Group[reconfigure.Event]) {
	e := told.First
	args := []any{"phase", e.Phase}
	if !told.Nodes.Empty() {
		args = append(args, "nodes", told.Nodes)
	}
	switch e.Level {
	case reconfigure.Note:
		v.log.InfoContext(v.ctx, text.OneLine(e.Message), args...)
	case reconfigure.Failed:
		v.log.ErrorContext(v.ctx, string(e.Level), append(args, "reason", e.Message)...)
	default:
		v.log.InfoContext(v.ctx, string(e.Level), args...)
	}
}

// End writes nothing: the outcome follows.
func (LogView) End() {}
