package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// logView writes one line for what happens to several nodes alike.
type logView struct {
	ctx     context.Context
	log     *slog.Logger
	sieve   sieve
	verbose bool
}

func newLogView(ctx context.Context, log *slog.Logger, r reconfigure.Request, verbose bool) logView {
	log = log.With("request", r.ID)
	args := []any{"mode", r.Mode}
	if !r.Nodes.Empty() {
		args = append(args, "nodes", r.Nodes)
	}
	log.InfoContext(ctx, "submitted", args...)
	return logView{ctx: ctx, log: log, sieve: newSieve(), verbose: verbose}
}

func (v logView) events(events []reconfigure.Event) {
	told := slices.DeleteFunc(slices.Clone(events), func(e reconfigure.Event) bool { return v.sieve.step(e) && !v.verbose })
	for _, one := range grouped(told) {
		v.write(one)
	}
}

// write has the level for its message, as in "begun", with the phase beside it; a note has its own words.
func (v logView) write(told company[reconfigure.Event]) {
	e := told.first
	args := []any{"phase", e.Phase}
	if !told.nodes.Empty() {
		args = append(args, "nodes", told.nodes)
	}
	switch e.Level {
	case reconfigure.Note:
		v.log.InfoContext(v.ctx, oneLine(e.Message), args...)
	case reconfigure.Failed:
		v.log.ErrorContext(v.ctx, string(e.Level), append(args, "reason", e.Message)...)
	default:
		v.log.InfoContext(v.ctx, string(e.Level), args...)
	}
}

func (logView) end() {}
