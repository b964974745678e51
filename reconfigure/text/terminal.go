package text

import (
	"io"

	"golang.org/x/term"
)

// descriptor has the descriptor of a file, as *os.File has.
type descriptor interface{ Fd() uintptr }

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalSize returns the columns and lines of a terminal, or 100 and 24 if they are unknown. It asks the terminal
// at each call, since people resize it.
func TerminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(descriptor); ok {
		width, height, _ = term.GetSize(int(f.Fd()))
	}
	if width <= 0 || height <= 0 {
		return 100, 24
	}
	return width, height
}
