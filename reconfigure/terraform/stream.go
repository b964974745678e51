package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// event is a line of what Terraform writes with -json ("Machine-Readable UI" in its documentation).
type event struct {
	Type string `json:"type"`
	Hook struct {
		Resource resource `json:"resource"`
		Action   string   `json:"action"`
		ID       string   `json:"id_value"`
		Elapsed  float64  `json:"elapsed_seconds"`
	} `json:"hook"`
	Change struct {
		Resource  resource        `json:"resource"`
		Previous  *resource       `json:"previous_resource"`
		Action    string          `json:"action"`
		Reason    string          `json:"reason"`
		Importing json.RawMessage `json:"importing"`
	} `json:"change"`
	Changes    *summary           `json:"changes"`
	Terraform  string             `json:"terraform"` // its version
	Tofu       string             `json:"tofu"`      // OpenTofu's version
	Diagnostic *tfjson.Diagnostic `json:"diagnostic"`
}

// resource is how an event names one.
type resource struct {
	Address string `json:"addr"`
	Module  string `json:"module"`
	Local   string `json:"resource"` // the address in the module
	Type    string `json:"resource_type"`
	Name    string `json:"resource_name"`
}

// The types of events that tell how a resource's change goes.
const (
	applyStart    = "apply_start"
	applyProgress = "apply_progress"
	applyComplete = "apply_complete"
	applyErrored  = "apply_errored"
)

// stream gathers events from what Terraform writes. Lines of another kind, a crash's say, are left out; they come
// back in terraform-exec's error.
type stream struct {
	on      func(event) // hears each event as it comes; may be nil
	events  []event
	partial []byte
}

// Write takes any part of the stream. It never fails: Terraform must not be stopped because we do not understand it.
func (s *stream) Write(p []byte) (int, error) {
	s.partial = append(s.partial, p...)
	for {
		line, rest, whole := bytes.Cut(s.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		s.partial = rest
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		s.events = append(s.events, e)
		if s.on != nil {
			s.on(e)
		}
	}
}

// errors is the diagnostics that are errors.
func (s *stream) errors() []tfjson.Diagnostic {
	var found []tfjson.Diagnostic
	for _, e := range s.events {
		if e.Diagnostic != nil && e.Diagnostic.Severity == tfjson.DiagnosticSeverityError {
			found = append(found, *e.Diagnostic)
		}
	}
	return found
}

// explain is why a run failed: the context is done, the state is locked, or what Terraform says, else what
// terraform-exec says.
func (s *stream) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return orDone(ctx, err)
	}
	found := s.errors()
	if locked := lockedBy(found); locked != nil {
		return locked
	}
	if len(found) == 0 {
		return err
	}
	said := make([]string, len(found))
	for i, d := range found {
		said[i] = sentence(d)
	}
	return told(said)
}

// sentence is a diagnostic on one line.
func sentence(d tfjson.Diagnostic) string {
	said := strings.Join(strings.Fields(d.Summary), " ")
	if detail := strings.Join(strings.Fields(d.Detail), " "); detail != "" && detail != said {
		said += ": " + detail
	}
	return said
}

// progress is what a person wants to hear of an event, without the node's name; empty for what is of no interest.
func progress(e event) string {
	block, _, _ := strings.Cut(e.Hook.Resource.Address, "[")
	switch e.Type {
	case applyStart:
		return fmt.Sprintf("%s %s", e.Hook.Action, block)
	case applyProgress:
		return fmt.Sprintf("%s %s: %.0f s so far", e.Hook.Action, block, e.Hook.Elapsed)
	case applyComplete:
		return fmt.Sprintf("%s %s: done after %.0f s", e.Hook.Action, block, e.Hook.Elapsed)
	case applyErrored:
		return fmt.Sprintf("%s %s: failed after %.0f s", e.Hook.Action, block, e.Hook.Elapsed)
	default:
		return ""
	}
}

var errKilled = errors.New("it was killed, and what it was making may exist without being in its state")
