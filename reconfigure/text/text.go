// Package text lays out what people read: tables, wrapped paragraphs, hostlists of nodes of which the same is told,
// lengths of time, and how large their terminal is. It knows nothing of clusters.
package text

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/mitchellh/go-wordwrap"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Printable replaces what a terminal would obey: messages are made by other programs, and by machines.
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

// OneLine is text on a single line.
func OneLine(s string) string { return strings.Join(strings.Fields(Printable(s)), " ") }

// Clip cuts text to a number of characters, and marks that it did.
func Clip(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return s
}

// Wrap breaks text into lines of at most width characters where it has blanks, and keeps the breaks that it has. What
// has no blank is not broken: it may be an address to copy. Text without characters has no lines.
func Wrap(s string, width int) []string {
	const least = 20 // on a narrower terminal than that the terminal breaks the lines
	var lines []string
	for paragraph := range strings.Lines(strings.TrimSpace(Printable(s))) {
		words := strings.Join(strings.Fields(paragraph), " ")
		lines = append(lines, strings.Split(wordwrap.WrapString(words, uint(max(width, least))), "\n")...)
	}
	return lines
}

// Ago is how long something is past; empty where it never was.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return Span(now.Sub(then))
}

// Span is a length of time in two units at most: 45s, 2m05s, 3h20m, 4d02h.
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

// Group is nodes of which the same is told.
type Group[T any] struct {
	First T // what is told, as it is told of one of them
	Nodes nodeset.NodeSet
}

// GroupNodes puts those together of which the same is told, in the order in which it is told first: an image that has
// changed concerns thousands of nodes. The key of what is told is all of it but the node, which is empty where it is
// told of no single one.
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
