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
	for _, g := range grouped(told) {
		v.write(g)
	}
}

// write has the level for its message, as in "begun", with the phase beside it; a note has its own words.
func (v logView) write(g group) {
	args := []any{"phase", g.Phase}
	if !g.nodes.Empty() {
		args = append(args, "nodes", g.nodes)
	}
	switch g.Level {
	case reconfigure.Note:
		v.log.InfoContext(v.ctx, oneLine(g.Message), args...)
	case reconfigure.Failed:
		v.log.ErrorContext(v.ctx, string(g.Level), append(args, "reason", g.Message)...)
	default:
		v.log.InfoContext(v.ctx, string(g.Level), args...)
	}
}

func (logView) end() {}
