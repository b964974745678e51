package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// event is a line of Terraform's output with -json ("Machine-Readable UI" in its documentation).
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
	Terraform  string             `json:"terraform"` // Terraform's version
	Tofu       string             `json:"tofu"`      // OpenTofu's version
	Diagnostic *tfjson.Diagnostic `json:"diagnostic"`
}

// resource identifies a resource in an event.
type resource struct {
	Address string `json:"addr"`
	Module  string `json:"module"`
	Local   string `json:"resource"` // the address in the module
	Type    string `json:"resource_type"`
	Name    string `json:"resource_name"`
}

// The types of events on the progress of a change.
const (
	applyStart    = "apply_start"
	applyProgress = "apply_progress"
	applyComplete = "apply_complete"
	applyErrored  = "apply_errored"
)

// resourceDrift is the type of the event for a resource that the refresh of a plan has found changed.
const resourceDrift = "resource_drift"

// stream parses the events in Terraform's output. It ignores other lines, for example those of a crash, which are in
// terraform-exec's error.
type stream struct {
	on      func(event) // called with each event; may be nil
	class   classifier
	events  []event
	partial []byte
}

// Write accepts any part of the output. It never fails, since unknown output must not end Terraform.
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

// errors returns the diagnostics that are errors.
func (s *stream) errors() []tfjson.Diagnostic {
	var found []tfjson.Diagnostic
	for _, e := range s.events {
		if e.Diagnostic != nil && e.Diagnostic.Severity == tfjson.DiagnosticSeverityError {
			found = append(found, *e.Diagnostic)
		}
	}
	return found
}

// explain returns the error of a failed run: the context's error, a *LockedError, Terraform's errors, or else
// terraform-exec's.
func (s *stream) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return orDone(ctx, err)
	}
	found := s.errors()
	if locked := lockedBy(found); locked != nil {
		return reconfigure.Classify(reconfigure.ClassLocked, locked)
	}
	if len(found) == 0 {
		return err
	}
	said := make([]string, len(found))
	for i, d := range found {
		said[i] = sentence(d)
	}
	return s.class.told(said)
}

// sentence returns a diagnostic on one line.
func sentence(d tfjson.Diagnostic) string {
	said := strings.Join(strings.Fields(d.Summary), " ")
	if detail := strings.Join(strings.Fields(d.Detail), " "); detail != "" && detail != said {
		said += ": " + detail
	}
	return missingError.ReplaceAllString(said, "")
}

// missingError is the provider's text if the cloud gives no error.
var missingError = regexp.MustCompile(`\. last error: %!s\(<nil>\)`)

// progress returns the progress message for an event, without the node's name; empty for other events.
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

// errKilled is the error of a run that a signal ended.
var errKilled = errors.New("a signal ended Terraform")

// wasKilled reports whether a signal that is not ours ended the run that has returned err.
func wasKilled(ctx context.Context, err error) bool {
	var ended *exec.ExitError
	return ctx.Err() == nil && errors.As(err, &ended) && !ended.Exited()
}
