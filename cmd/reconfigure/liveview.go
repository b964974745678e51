package main

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
)

// liveView keeps a picture of where each node is at the bottom of a terminal, nodes that are equally far in one line. News stand above it, and stay.
type liveView struct {
	out   io.Writer
	size  func() (width, height int)
	now   func() time.Time
	sieve sieve
	nodes map[string]stop // where each node is; of what no single node owns under the empty name
	shown []string        // the picture on the screen, line by line
}

// stop is where a node is on its way.
type stop struct {
	phase  reconfigure.Phase
	level  reconfigure.Level // Begun, Done or Failed
	reason string            // why it failed
	since  time.Time         // when the phase began
	step   reconfigure.Event // the last one
}

func newLiveView(out io.Writer, r reconfigure.Request) *liveView {
	fmt.Fprintf(out, "request %s: %s\n", r.ID, strings.TrimSpace(string(r.Mode)+" "+r.Nodes.String()))
	return &liveView{
		out: out, size: func() (int, int) { return terminalSize(out) }, now: time.Now,
		sieve: newSieve(), nodes: map[string]stop{},
	}
}

func (v *liveView) events(events []reconfigure.Event) {
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

// after is where a node is after an event. Notes move nobody, so one that failed stays there unless another worker begins anew.
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

// crowd is the nodes that are equally far.
type crowd struct {
	stop  // since is that of the first one, and step the last of them all
	names []string
}

// crowds puts nodes that are equally far together: those that failed first, since what does not fit on the terminal had better go well.
func crowds(nodes map[string]stop) []crowd {
	together := map[stop]crowd{}
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
	return slices.SortedFunc(maps.Values(together), func(a, b crowd) int {
		return cmp.Or(cmp.Compare(rank(a.level), rank(b.level)), a.since.Compare(b.since), cmp.Compare(a.phase, b.phase), cmp.Compare(a.reason, b.reason))
	})
}

// picture has a line for each crowd, as many as fit.
func picture(nodes map[string]stop, now time.Time, width, height int) []string {
	var lines []string
	for _, c := range crowds(nodes) {
		if c.phase != "" {
			lines = append(lines, clip(c.line(now, width), width-1))
		}
	}
	if most := max(height-1, 1); len(lines) > most { // the cursor has a line of its own
		lines = append(lines[:most-1], clip(fmt.Sprintf("… and %d more", len(lines)-most+1), width-1))
	}
	return lines
}

// rank is the order of lines: failed, under way, done.
func rank(l reconfigure.Level) int {
	return slices.Index([]reconfigure.Level{reconfigure.Failed, reconfigure.Begun, reconfigure.Done}, l)
}

func (c crowd) line(now time.Time, width int) string {
	words := map[reconfigure.Level]string{reconfigure.Begun: span(now.Sub(c.since)), reconfigure.Done: "done", reconfigure.Failed: "failed"}
	list := clip(nodeset.Of(c.names...).String(), max(width*2/5, 12))
	if n := len(c.names); n > 1 {
		list = fmt.Sprintf("%s (%d)", list, n)
	}
	return strings.TrimRight(fmt.Sprintf("%-9s  %-6s  %s  %s", c.phase, words[c.level], list, oneLine(cmp.Or(c.reason, c.step.Message))), " ")
}

// draw puts news above the picture, and a new picture in the place of the last one, by one write, so that nothing flickers. Sequences are ECMA-48's.
func (v *liveView) draw(news []company[reconfigure.Event], lines []string) {
	if len(news) == 0 && slices.Equal(lines, v.shown) {
		return
	}
	var b strings.Builder
	b.WriteString(v.erase())
	for _, n := range news {
		fmt.Fprintf(&b, "%s %s\n", n.first.Time.Local().Format(time.TimeOnly), strings.TrimSpace(n.nodes.String()+" "+oneLine(n.first.Message)))
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	v.shown = lines
	// A terminal that is gone is no reason to leave: the outcome may still be asked for.
	_, _ = io.WriteString(v.out, b.String())
}

// erase takes the picture off. A terminal that was made narrower since breaks the lines that were on it.
func (v *liveView) erase() string {
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

// end takes the picture off: the outcome says it all, and better.
func (v *liveView) end() { v.draw(nil, nil) }

// span is a length of time in two units at most: 45s, 2m05s, 3h20m, 4d02h.
func span(d time.Duration) string {
	d = max(d, 0)
	seconds, minutes, hours := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case minutes < 60:
		return fmt.Sprintf("%dm%02ds", minutes, seconds%60)
	case hours < 24:
		return fmt.Sprintf("%dh%02dm", hours, minutes%60)
	}
	return fmt.Sprintf("%dd%02dh", hours/24, hours%24)
}
