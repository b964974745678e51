package terraform

import (
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// LockedError means that another process held the state's lock for longer than the lock timeout. Nothing was changed,
// and a retry may succeed. Fields that the back end does not report are empty; pg reports none.
type LockedError struct {
	ID, Operation, Who, Created string
}

func (e *LockedError) Error() string {
	if e.ID == "" {
		return "Terraform's state is locked by another Terraform, which its back end (pg) does not name; the lock " +
			"ends " +
			"with that process or, if its host has failed, when PostgreSQL closes the connection"
	}
	return fmt.Sprintf("Terraform's state is locked by %s since %s for %s; if that process is gone for good, "+
		"`terraform force-unlock %s` frees it",
		orUnknown(e.Who), orUnknown(e.Created), orUnknown(e.Operation), e.ID)
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// lockedBy finds the error of a locked state in Terraform's errors; nil if there is none. It parses messages, since
// Terraform has no event for a locked state, and terraform-exec has no error for it.
func lockedBy(errors []tfjson.Diagnostic) *LockedError {
	for _, d := range errors {
		if d.Summary != "Error acquiring the state lock" {
			continue
		}
		said := map[string]string{}
		for line := range strings.Lines(d.Detail) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if value = strings.TrimSpace(value); said[name] == "" {
				said[name] = value
			}
		}
		switch why := said["Error message"]; {
		case strings.HasPrefix(why, "Workspace is already locked"),
			strings.HasPrefix(why, "Already locked for workspace creation"):
			return &LockedError{} // the "Lock Info" of pg describes this process
		case said["ID"] != "": // without it, locking failed for another reason
			return &LockedError{ID: said["ID"], Operation: said["Operation"], Who: said["Who"],
				Created: said["Created"]}
		}
	}
	return nil
}
