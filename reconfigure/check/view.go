package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// width is the number of characters in a line.
const width = 120

// Write writes a report for people: each finding, with its importance and the change below it.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		paragraph(&b, fmt.Sprintf("%-7s  ", f.Severity), f.What)
		paragraph(&b, strings.Repeat(" ", 9), f.Why)
		paragraph(&b, strings.Repeat(" ", 9)+"→ ", f.Change)
	}
	for _, u := range r.Unreachable {
		paragraph(
			&b,
			"unknown  ",
			fmt.Sprintf("%s does not answer, and what depends on it is not checked: %s", u.Source, u.Reason),
		)
	}
	if len(r.Findings)+len(r.Unreachable) == 0 {
		fmt.Fprintln(&b, "Nothing was found.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paragraph writes a head and text, and indents further lines by the width of the head.
func paragraph(b *strings.Builder, head, words string) {
	indent := strings.Repeat(" ", len([]rune(head)))
	for i, line := range text.Wrap(words, width-len(indent)) {
		if i > 0 {
			head = indent
		}
		fmt.Fprintf(b, "%s%s\n", head, line)
	}
}
