package reconfigure

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Evidence is what is kept of a failed node for whoever looks into it later: its instance may be gone by then.
type Evidence struct {
	Time  time.Time `json:"time"`
	Plan  int64     `json:"plan"` // the number of the plan
	Node  string    `json:"node"`
	Phase Phase     `json:"phase"` // where it failed
	Kind  Witness   `json:"kind"`
	Text  string    `json:"text"`
}

// Witness is where evidence comes from.
type Witness string

// The witnesses: the console log of the instance, by the cloud; what the task that failed has printed, by Ansible.
const (
	WitnessConsole Witness = "console"
	WitnessTask    Witness = "task"
)

// EvidenceLimit is the most of one text that is kept, in bytes: about a thousand lines, so that thousands of failures fit into a journal.
const EvidenceLimit = 64 << 10

// Tail is the end of a text that is too long to be kept, from the beginning of a line or at least of a character on: what went wrong stands last.
func Tail(text string, limit int) string {
	const mark = "[…]\n"
	if len(text) <= limit {
		return text
	}
	end := text[len(text)-max(limit-len(mark), 0):]
	if i := strings.IndexByte(end, '\n'); i >= 0 && i < len(end)/2 {
		return mark + end[i+1:]
	}
	for end != "" && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return mark + end
}

// WithOutput gives an error what a program printed before it failed; nil stays nil. The error's text stays as it is.
func WithOutput(output string, err error) error {
	if err == nil || output == "" {
		return err
	}
	return &printed{err, output}
}

// OutputOf is what the error was given by WithOutput; empty where it was given nothing.
func OutputOf(err error) string {
	if p := (*printed)(nil); errors.As(err, &p) {
		return p.output
	}
	return ""
}

type printed struct {
	error
	output string
}

func (p *printed) Unwrap() error { return p.error }
