package status

import (
	"context"
	"log/slog"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// LogView writes one line for what happens to several nodes alike.
type LogView struct {
	ctx     context.Context
	log     *slog.Logger
	sieve   sieve
	verbose bool
}

// NewLogView writes that the request was submitted. A verbose view has each step of Terraform and Ansible, too.
func NewLogView(ctx context.Context, log *slog.Logger, r reconfigure.Request, verbose bool) LogView {
	log = log.With("request", r.ID)
	args := []any{"mode", r.Mode}
	if !r.Nodes.Empty() {
		args = append(args, "nodes", r.Nodes)
	}
	log.InfoContext(ctx, "submitted", args...)
	return LogView{ctx: ctx, log: log, sieve: newSieve(), verbose: verbose}
}

// Events writes a line for each kind of event.
func (v LogView) Events(events []reconfigure.Event) {
	told := slices.DeleteFunc(
		slices.Clone(events),
		func(e reconfigure.Event) bool { return v.sieve.step(e) && !v.verbose },
	)
	for _, one := range grouped(told) {
		v.write(one)
	}
}

// write has the level for its message, as in "begun", with the phase beside it; a note has its own words.
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
