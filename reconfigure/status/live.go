package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// LiveView shows the phase of each node at the bottom of a terminal, and redraws it. Nodes in the same phase share a
// line. Notes are printed above it, and stay.
type LiveView struct {
	out   io.Writer
	size  func() (width, height int)
	now   func() time.Time
	sieve sieve
	nodes map[string]stop // the phase of each node; the empty name is for events that name no node
	shown []string        // the picture on the screen, line by line
}

// stop is the phase of a node.
type stop struct {
	phase  reconfigure.Phase
	level  reconfigure.Level // Begun, Done or Failed
	reason string            // why it failed
	since  time.Time         // when the phase began
	step   reconfigure.Event // the last step
}

// NewLiveView shows a request on a terminal. Each redraw reads the terminal's size.
func NewLiveView(out io.Writer, r reconfigure.Request, size func() (width, height int)) *LiveView {
	fmt.Fprintf(out, "request %s: %s\n", r.ID, strings.TrimSpace(string(r.Mode)+" "+r.Nodes.String()))
	return &LiveView{
		out: out, size: size, now: time.Now,
		sieve: newSieve(), nodes: map[string]stop{},
	}
}

// Events redraws the changed lines.
func (v *LiveView) Events(events []reconfigure.Event) {
	var news []reconfigure.Event
	for _, e := range events {
		isStep := v.sieve.step(e)
		if e.Level == reconfigure.Note && !isStep {
			news = append(news, e)
			continue
		}
		v.nodes[e.Node] = v.nodes[e.Node].after(e)
	}
	width, height := v.size()
	v.draw(grouped(news), picture(v.nodes, v.now(), width, height))
}

// after returns the phase of a node after an event. A note does not change the phase, so a node that failed stays
// failed until another attempt begins.
func (s stop) after(e reconfigure.Event) stop {
	switch {
	case e.Level == reconfigure.Note:
		s.step = e
		return s
	case e.Level == reconfigure.Begun || e.Phase != s.phase:
		return stop{phase: e.Phase, level: e.Level, reason: e.Message, since: e.Time}
	}
	s.level, s.reason, s.step = e.Level, e.Message, reconfigure.Event{}
	return s
}

// cohort has the nodes in the same phase.
type cohort struct {
	stop  // since is that of the first node, step the last step of all nodes
	names []string
}

// cohorts groups the nodes by their phase. Failed nodes come first, so that they are never cut off at the bottom of
// the terminal.
func cohorts(nodes map[string]stop) []cohort {
	together := map[stop]cohort{}
	for name, s := range nodes {
		place := stop{phase: s.phase, level: s.level, reason: s.reason}
		c, known := together[place]
		if !known {
			c.stop = s
		}
		if s.since.Before(c.since) {
			c.since = s.since
		}
		if s.step.ID > c.step.ID {
			c.step = s.step
		}
		if name != "" {
			c.names = append(c.names, name)
		}
		together[place] = c
	}
	return slices.SortedFunc(maps.Values(together), func(a, b cohort) int {
		return cmp.Or(
			cmp.Compare(rank(a.level), rank(b.level)),
			a.since.Compare(b.since),
			cmp.Compare(a.phase, b.phase),
			cmp.Compare(a.reason, b.reason),
		)
	})
}

// picture has a line for each cohort, as many as fit.
func picture(nodes map[string]stop, now time.Time, width, height int) []string {
	var lines []string
	for _, c := range cohorts(nodes) {
		if c.phase != "" {
			lines = append(lines, text.Clip(c.line(now, width), width-1))
		}
	}
	if most := max(height-1, 1); len(lines) > most { // the cursor has a line of its own
		lines = append(lines[:most-1], text.Clip(fmt.Sprintf("… and %d more", len(lines)-most+1), width-1))
	}
	return lines
}

// rank gives the order of lines: failed, begun, done.
func rank(l reconfigure.Level) int {
	return slices.Index([]reconfigure.Level{reconfigure.Failed, reconfigure.Begun, reconfigure.Done}, l)
}

func (c cohort) line(now time.Time, width int) string {
	words := map[reconfigure.Level]string{
		reconfigure.Begun:  text.Span(now.Sub(c.since)),
		reconfigure.Done:   "done",
		reconfigure.Failed: "failed",
	}
	list := text.Clip(nodeset.Of(c.names...).String(), max(width*2/5, 12))
	if n := len(c.names); n > 1 {
		list = fmt.Sprintf("%s (%d)", list, n)
	}
	return strings.TrimRight(
		fmt.Sprintf(
			"%-9s  %-6s  %s  %s",
			c.phase,
			words[c.level],
			list,
			text.OneLine(cmp.Or(c.reason, c.step.Message)),
		),
		" ",
	)
}

// draw prints news above the picture and replaces the picture. It does so in one write, to avoid flicker. The control
// sequences are those of ECMA-48.
func (v *LiveView) draw(news []text.Group[reconfigure.Event], lines []string) {
	if len(news) == 0 && slices.Equal(lines, v.shown) {
		return
	}
	var b strings.Builder
	b.WriteString(v.erase())
	for _, n := range news {
		fmt.Fprintf(
			&b,
			"%s %s\n",
			n.First.Time.Local().Format(time.TimeOnly),
			strings.TrimSpace(n.Nodes.String()+" "+text.OneLine(n.First.Message)),
		)
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	v.shown = lines
	// A closed terminal does not end the call: its exit code may still be read.
	_, _ = io.WriteString(v.out, b.String())
}

// erase removes the picture. A terminal that has become narrower has wrapped its lines.
func (v *LiveView) erase() string {
	width, _ := v.size()
	rows := 0
	for _, line := range v.shown {
		rows += max(1, (utf8.RuneCountInString(line)+width-1)/width)
	}
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", rows) // CUU, CR, ED
}

// End removes the picture, since the outcome follows.
func (v *LiveView) End() { v.draw(nil, nil) }
