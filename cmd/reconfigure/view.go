package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// view shows the events of a request as they come.
type view interface {
	events([]reconfigure.Event)
	close()
}

// newView picks the view that fits: a live picture on a terminal, a log elsewhere.
func newView(c *cli.Context, r reconfigure.Request) view {
	if out, ok := c.App.ErrWriter.(*os.File); ok && !c.Bool("json") && term.IsTerminal(int(out.Fd())) {
		fmt.Fprintf(out, "request %d: %s %s\n", r.ID, r.Mode, r.Nodes)
		return &liveView{out: out, width: func() int { w, _, _ := term.GetSize(int(out.Fd())); return w }, nodes: map[string]reconfigure.Event{}}
	}
	l := logger(c).With("request", r.ID)
	l.Info("submitted", "mode", r.Mode, "nodes", r.Nodes.String())
	return logView{c.Context, l}
}

// logView writes one line for what happens to several nodes alike.
type logView struct {
	ctx context.Context
	log *slog.Logger
}

func (v logView) events(events []reconfigure.Event) {
	for _, g := range grouped(events) {
		level := slog.LevelInfo
		if g.Level == reconfigure.Failed {
			level = slog.LevelError
		}
		args := []any{"phase", g.Phase}
		if !g.nodes.Empty() {
			args = append(args, "nodes", g.nodes.String())
		}
		if g.Message != "" {
			args = append(args, "message", g.Message)
		}
		v.log.Log(v.ctx, level, string(g.Level), args...)
	}
}

func (logView) close() {}

// liveView keeps a picture of where each node is, nodes that are at the same point in one line.
type liveView struct {
	out   io.Writer
	width func() int // columns of the terminal; 0 where it cannot tell
	nodes map[string]reconfigure.Event
	lines int // of the picture on the screen
}

func (v *liveView) events(events []reconfigure.Event) {
	for _, e := range events {
		if e.Node != "" {
			v.nodes[e.Node] = e
		}
	}
	v.draw(time.Now())
}

func (v *liveView) draw(now time.Time) {
	last := make([]reconfigure.Event, 0, len(v.nodes))
	for _, e := range v.nodes {
		last = append(last, e)
	}
	groups := grouped(last)
	var b strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.lines) // cursor up (ECMA-48, CUU)
	}
	for _, g := range groups {
		line := fmt.Sprintf("%-10s %-7s %-24s %5.0fs  %s", g.Phase, g.Level, g.nodes, now.Sub(g.Time).Seconds(), oneLine(g.Message))
		fmt.Fprintf(&b, "%s\x1b[K\n", clip(line, v.width()))
	}
	b.WriteString("\x1b[J") // erase what an earlier, longer picture left below
	v.lines = len(groups)
	io.WriteString(v.out, b.String())
}

func (v *liveView) close() { v.draw(time.Now()) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func clip(s string, width int) string {
	if r := []rune(s); width > 0 && len(r) >= width {
		return string(r[:width-1])
	}
	return s
}

// group is an event that several nodes share.
type group struct {
	reconfigure.Event
	nodes nodeset.NodeSet
}

// grouped puts the nodes of which the same is told into one group, oldest first.
func grouped(events []reconfigure.Event) []group {
	type key struct {
		phase   reconfigure.Phase
		level   reconfigure.Level
		message string
	}
	first := map[key]reconfigure.Event{}
	names := map[key][]string{}
	for _, e := range events {
		k := key{e.Phase, e.Level, e.Message}
		if was, ok := first[k]; !ok || e.ID < was.ID {
			first[k] = e
		}
		if e.Node != "" {
			names[k] = append(names[k], e.Node)
		}
	}
	var groups []group
	for k, e := range first {
		groups = append(groups, group{Event: e, nodes: nodeset.Of(names[k]...)})
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}
