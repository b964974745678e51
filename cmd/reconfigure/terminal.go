package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// isTerminal tells whether somebody looks at it.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalSize is the columns and lines of a terminal, asked anew each time since people resize it; those of a usual one where it cannot tell, or where w is none.
func terminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		width, height, _ = term.GetSize(int(f.Fd()))
	}
	if width <= 0 || height <= 0 {
		return 100, 24
	}
	return width, height
}

// printable takes out what a terminal would obey: messages are made by other programs, and by machines.
func printable(s string) string {
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

// oneLine is text on a single line.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// clip shortens text to a number of characters, and says so.
func clip(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return s
}
