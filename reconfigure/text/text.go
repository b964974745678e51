// Package text lays out output for people: tables, wrapped paragraphs, groups of nodes with the same message, and
// durations. It also reads the size of the terminal. It knows nothing about clusters.
package text

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/mitchellh/go-wordwrap"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Printable replaces control characters, which a terminal would execute: messages come from other programs and from
// nodes.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// OneLine returns text on a single line.
func OneLine(s string) string { return strings.Join(strings.Fields(Printable(s)), " ") }

// Count returns a number with a regular noun in the right form: "1 error", "2 errors".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// Clip cuts text to a number of characters, and marks the cut.
func Clip(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return s
}

// Wrap breaks text at blanks into lines of at most width characters, and keeps existing line breaks. It does not
// break words, since they may be addresses to copy. An empty text has no lines.
func Wrap(s string, width int) []string {
	const least = 20 // a narrower terminal breaks the lines itself
	var lines []string
	for paragraph := range strings.Lines(strings.TrimSpace(Printable(s))) {
		words := strings.Join(strings.Fields(paragraph), " ")
		lines = append(lines, strings.Split(wordwrap.WrapString(words, uint(max(width, least))), "\n")...)
	}
	return lines
}

// Ago returns how long ago then was; empty for the zero time.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return Span(now.Sub(then))
}

// Span returns a duration in at most two units: 45s, 2m05s, 3h20m, 4d02h.
func Span(d time.Duration) string {
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

// Group is a group of nodes with the same message.
type Group[T any] struct {
	First T // the message of the group's first node
	Nodes nodeset.NodeSet
}

// GroupNodes groups nodes that have the same message, in the order of first appearance: a changed image, for example,
// concerns thousands of nodes. The function key splits a message into the node and the rest; the node is empty if the
// message is not about a single node.
func GroupNodes[T any, K comparable](all []T, key func(T) (node string, rest K)) []Group[T] {
	var (
		groups []Group[T]
		names  [][]string
		at     = map[K]int{}
	)
	for _, one := range all {
		node, rest := key(one)
		i, known := at[rest]
		if !known {
			i = len(groups)
			at[rest] = i
			groups, names = append(groups, Group[T]{First: one}), append(names, nil)
		}
		if node != "" {
			names[i] = append(names[i], node)
		}
	}
	for i := range groups {
		groups[i].Nodes = nodeset.Of(names[i]...)
	}
	return groups
}
