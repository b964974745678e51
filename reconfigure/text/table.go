package text

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Table writes rows in columns, the first row as the header. Lines are cut to width characters; zero means no limit.
// An empty cell is shown as a dash, and a column without content below its header is left out.
func Table(w io.Writer, rows [][]string, width int) error {
	used := make([]bool, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			used[i] = used[i] || cell != ""
		}
	}
	out := table.NewWriter()
	out.SetStyle(style())
	out.SuppressTrailingSpaces()
	for _, row := range rows {
		cells := make(table.Row, 0, len(row))
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			if used[i] {
				cells = append(cells, cell)
			}
		}
		out.AppendRow(cells)
	}
	var b strings.Builder
	for line := range strings.Lines(out.Render() + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if width > 0 {
			line = Clip(line, width)
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// style is a style without lines, with two blanks between columns.
func style() table.Style {
	s := table.StyleDefault
	s.Box = table.BoxStyle{PaddingRight: "  "}
	s.Options = table.OptionsNoBordersAndSeparators
	return s
}
