package status

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Format is a form of output.
type Format string

// The formats: a table, a table with all columns and lines, and three for programs. Only values that are a [Sheet] have
// CSV.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
	FormatCSV   Format = "csv"
)

// ForPeople reports whether people read the format.
func (f Format) ForPeople() bool { return f == FormatTable || f == FormatWide }

// Sheet is a value that can be written as CSV.
type Sheet interface {
	// Rows returns the header and the records.
	Rows() [][]string
}

// Table writes a value for people, in lines of at most width characters; zero is no limit.
type Table = func(w io.Writer, wide bool, width int) error

// ParseFormat returns the format with that name, or the default one if no name is given. AsJSON is the flag --json,
// which must not contradict the name.
func ParseFormat(name string, given, asJSON bool) (Format, error) {
	switch format := Format(name); {
	case !given && asJSON:
		return FormatJSON, nil
	case !given:
		return FormatTable, nil
	case !slices.Contains([]Format{FormatTable, FormatWide, FormatJSON, FormatYAML, FormatCSV}, format):
		return "", fmt.Errorf("unknown output format %q: use table, wide, json or yaml", name)
	case asJSON && format != FormatJSON:
		return "", fmt.Errorf("--json and --output %s contradict each other", name)
	default:
		return format, nil
	}
}

// Write writes a value for programs or, by table, for people, in lines of the width of their terminal.
func (f Format) Write(w io.Writer, value any, table Table) error {
	switch f {
	case FormatJSON:
		return json.NewEncoder(w).Encode(value)
	case FormatYAML:
		return WriteYAML(w, value)
	case FormatCSV:
		sheet, ok := value.(Sheet)
		if !ok {
			return fmt.Errorf("%T has no CSV", value)
		}
		return csv.NewWriter(w).WriteAll(sheet.Rows())
	}
	width := 0
	if text.IsTerminal(w) {
		width, _ = text.TerminalSize(w)
	}
	return table(w, f == FormatWide, width)
}
