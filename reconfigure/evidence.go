package reconfigure

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// Evidence is a text that is stored to find the cause of a node's failure later. By then the instance may be removed.
type Evidence struct {
	Time  time.Time `json:"time"`
	Plan  int64     `json:"plan"` // the number of the plan
	Node  string    `json:"node"`
	Phase Phase     `json:"phase"` // in which it failed
	Kind  Witness   `json:"kind"`
	Text  string    `json:"text"`
}

// Witness is the source of evidence.
type Witness string

// The sources: the instance's console log, from the cloud; the output of the failed task, from Ansible.
const (
	WitnessConsole Witness = "console"
	WitnessTask    Witness = "task"
)

// EvidenceLimit is the maximum size of one text, in bytes: about a thousand lines, so that a journal has room for
// thousands of failures.
const EvidenceLimit = 64 << 10

// Tail returns at most limit bytes of a text: its end, since that usually has the error. It begins with a mark if the
// text is cut, and cuts at the start of a line or of a character.
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

// WithOutput returns err with the output of the program that failed. It does not change the text of the error. It
// returns nil if err is nil.
func WithOutput(output string, err error) error {
	if err == nil || output == "" {
		return err
	}
	return &printed{err, output}
}

// OutputOf returns the output that WithOutput attached to an error; empty if there is none.
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
