package status

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Format is a form of output.
type Format string

// The formats: a table, a table with all columns and lines, and two for programs.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
)

// Table writes a value for people, in lines of at most width characters; zero is no limit.
type Table = func(w io.Writer, wide bool, width int) error

// ParseFormat returns the format with that name, or the default one if no name is given. AsJSON is the flag --json,
// which must not contradict the name.
func ParseFormat(name string, given, asJSON bool) (Format, error) {
	format := Format(name)
	switch {
	case given && !slices.Contains([]Format{FormatTable, FormatWide, FormatJSON, FormatYAML}, format):
		return "", fmt.Errorf("unknown output format %q: use table, wide, json or yaml", name)
	case asJSON && given && format != FormatJSON:
		return "", fmt.Errorf("--json and --output %s contradict each other", name)
	case asJSON:
		return FormatJSON, nil
	case !given:
		return FormatTable, nil
	}
	return format, nil
}

// Write writes a value for programs or, by table, for people, in lines of the width of their terminal.
func (f Format) Write(w io.Writer, value any, table Table) error {
	switch f {
	case FormatJSON:
		return json.NewEncoder(w).Encode(value)
	case FormatYAML:
		return WriteYAML(w, value)
	}
	width := 0
	if text.IsTerminal(w) {
		width, _ = text.TerminalSize(w)
	}
	return table(w, f == FormatWide, width)
}
