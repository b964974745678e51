package ansible

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// explained returns Ansible's error with a text that has the place and the reason from Ansible's output. The whole
// output stays in the error. The run's folder has links to the variables in the cluster directory; names has the
// latter's names in place of the former. The error of an interrupt is not changed.
func explained(err error, clusterDir string, names *strings.Replacer) error {
	ended, ok := errors.AsType[*process.Error](err)
	if !ok || ended.Err != nil || ended.Stderr == "" {
		return err
	}
	printed := names.Replace(ended.Stderr)
	text := essence(printed)
	if at := place.FindStringSubmatch(printed); at != nil {
		text = fmt.Sprintf("%s, line %s, column %s: %s", strings.TrimPrefix(at[1], clusterDir+"/"), at[2], at[3], text)
	}
	return reconfigure.WithOutput(ended.Stderr, &said{text, err})
}

// said is an error with another text.
type said struct {
	text string
	err  error
}

func (s *said) Error() string { return s.text }
func (s *said) Unwrap() error { return s.err }

// What ansible-core 2.14 prints; later releases have "[ERROR]: " and other words, so that their first line is the text.
var (
	place  = regexp.MustCompile(`The error appears to be in '([^']+)': line (\d+), column (\d+)`)
	syntax = regexp.MustCompile(`(?m)^Syntax Error while loading YAML\.\n\s+(.+)$`)
	first  = regexp.MustCompile(`(?m)^\[?ERROR(?:!|:|\]:) (.+)$`)
)

// essence returns the line of Ansible's output that has the reason: its error message, or the last line, which has
// the exception of a Python program.
func essence(printed string) string {
	if found := syntax.FindStringSubmatch(printed); found != nil {
		return "syntax error: " + found[1]
	}
	if found := first.FindStringSubmatch(printed); found != nil {
		return found[1]
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return lines[len(lines)-1]
}
