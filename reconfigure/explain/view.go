package explain

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Table returns a function that writes the story for people, as of a time. A wide one also has the nodes, the plan and
// the instance of each step.
func (s Story) Table(now time.Time) func(w io.Writer, wide bool, width int) error {
	return func(w io.Writer, wide bool, width int) error {
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n", s.Subject, s.State)
		for _, section := range []func(*strings.Builder, time.Time, bool, int) error{
			s.writeSteps, s.writeWait, s.writeFailures, s.writeNow,
		} {
			if err := section(&b, now, wide, width); err != nil {
				return err
			}
		}
		s.writeEnd(&b, now, width)
		_, err := io.WriteString(w, b.String())
		return err
	}
}

func (s Story) writeSteps(b *strings.Builder, now time.Time, wide bool, width int) error {
	if len(s.Steps) == 0 {
		return nil
	}
	rows := [][]string{{"TIME", "TOOK", "NODES", "WHO", "WHAT", "RESULT", "HOST", "DETAILS"}}
	if wide {
		rows[0] = append(rows[0], "PLAN", "INSTANCE")
	}
	for _, step := range s.Steps {
		nodes := step.Nodes.String()
		if !wide {
			nodes = text.Clip(nodes, 24)
		}
		if s.Node != "" {
			nodes = "" // all steps are of this node
		}
		row := []string{
			clock(step.Begin), step.took(now), nodes, string(step.Source), step.What, string(step.Result),
			short(step.Link.Host, wide), step.Reason,
		}
		if wide {
			plan := ""
			if step.Link.Plan != 0 {
				plan = strconv.FormatInt(step.Link.Plan, 10)
			}
			row = append(row, plan, step.Link.Instance)
		}
		rows = append(rows, row)
	}
	b.WriteString("\n")
	return text.Table(b, rows, width)
}

// took returns the duration of a step for people; empty for a step without a duration.
func (s Step) took(now time.Time) string {
	switch {
	case s.End.Equal(s.Begin):
		return ""
	case s.End.IsZero() && s.Result == Lasts:
		return text.Span(now.Sub(s.Begin)) + " so far"
	case s.End.IsZero():
		return ""
	}
	return text.Span(s.End.Sub(s.Begin))
}

// short shortens an id in a narrow table.
func short(id string, wide bool) string {
	if wide {
		return id
	}
	return text.Clip(id, 20)
}

func (s Story) writeWait(b *strings.Builder, now time.Time, _ bool, width int) error {
	if len(s.Wait) == 0 {
		return nil
	}
	rows := [][]string{{"WAITED FOR", "NODE", "TOOK", "MEDIAN", "P95"}}
	usual := func(d Seconds) string {
		if d == 0 {
			return ""
		}
		return text.Span(d.Duration())
	}
	total := time.Duration(0)
	for _, p := range s.Wait {
		took := text.Span(p.Took.Duration())
		if p.End.IsZero() {
			took += " so far"
		}
		total += p.Took.Duration()
		rows = append(rows, []string{string(p.Part), p.Node, took, usual(p.Median), usual(p.P95)})
	}
	rows = append(rows, []string{"in all", "", text.Span(total), "", ""})
	b.WriteString("\n")
	return text.Table(b, rows, width)
}

func (s Story) writeFailures(b *strings.Builder, now time.Time, wide bool, width int) error {
	if len(s.Failures) == 0 {
		return nil
	}
	rows := [][]string{{"FAILED WITH", "HOST", "TIMES", "LAST"}}
	for _, f := range s.Failures {
		rows = append(rows, []string{
			string(f.Class), short(f.Host, wide), strconv.Itoa(f.Count), text.Ago(now, f.Last) + " ago",
		})
	}
	b.WriteString("\n")
	return text.Table(b, rows, width)
}

func (s Story) writeNow(b *strings.Builder, _ time.Time, _ bool, width int) error {
	if len(s.Now) == 0 && len(s.Missing) == 0 {
		return nil
	}
	rows := [][]string{{"SOURCE", "NOW"}}
	for _, a := range s.Now {
		rows = append(rows, []string{string(a.Source), a.Text})
	}
	for _, m := range s.Missing {
		rows = append(rows, []string{string(m.Source), "does not answer: " + m.Reason})
	}
	b.WriteString("\n")
	return text.Table(b, rows, width)
}

// writeEnd writes what is awaited, and what a person can do.
func (s Story) writeEnd(b *strings.Builder, now time.Time, width int) {
	b.WriteString("\n")
	words := "It waits for nothing."
	if s.State == "unknown" && len(s.Steps) == 0 {
		words = "The journal knows nothing of it."
	}
	if w := s.WaitsFor; w != nil {
		words = fmt.Sprintf("It waits for %s; since %s (%s)", strings.TrimSuffix(w.For, "."), clock(w.Since),
			text.Ago(now, w.Since))
		switch {
		case s.Deadline.IsZero():
			words += ", without a limit."
		case s.Deadline.Before(now):
			words += fmt.Sprintf(", until %s, which has passed.", clock(s.Deadline))
		default:
			words += fmt.Sprintf(", until %s (in %s).", clock(s.Deadline), text.Span(s.Deadline.Sub(now)))
		}
		if w.Usual > 0 {
			words += fmt.Sprintf(" Before, 95 of 100 took at most %s.", text.Span(w.Usual.Duration()+time.Second-1))
		}
	}
	for _, line := range text.Wrap(words, cmp.Or(width, 100)) {
		b.WriteString(line + "\n")
	}
	for _, advice := range s.Advice {
		for i, line := range text.Wrap(advice, cmp.Or(width, 100)-2) {
			b.WriteString(map[bool]string{true: "- ", false: "  "}[i == 0] + line + "\n")
		}
	}
}
