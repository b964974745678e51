package text

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalSize returns the columns and lines of a terminal, or 100 and 24 if they are unknown. It asks the terminal
// at each call, since people resize it.
func TerminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		width, height, _ = term.GetSize(int(f.Fd()))
	}
	if width <= 0 || height <= 0 {
		return 100, 24
	}
	return width, height
}
