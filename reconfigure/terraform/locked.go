package terraform

import (
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// LockedError says that somebody else had the state locked for longer than the lock timeout. Nothing was changed, and
// a later try may succeed. Fields that the back end does not tell are empty; pg tells none.
type LockedError struct {
	ID, Operation, Who, Created string
}

func (e *LockedError) Error() string {
	if e.ID == "" {
		return "Terraform's state is locked by another Terraform, of which its back end (pg) tells nothing; the lock ends " +
			"with that process, and where the process's host is gone, as soon as PostgreSQL gives up the connection"
	}
	return fmt.Sprintf("Terraform's state is locked by %s since %s for %s; if that process is gone for good, "+
		"`terraform force-unlock %s` frees it",
		orUnknown(e.Who), orUnknown(e.Created), orUnknown(e.Operation), e.ID)
}

func orUnknown(s string) string {
	if s == "" {
		return "(not told)"
	}
	return s
}

// lockedBy finds in Terraform's errors that a lock is held, and by whom. It is the only place that reads Terraform's
// prose: there is no such event, and terraform-exec has no such error.
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
			return &LockedError{} // pg, whose "Lock Info" is that of the one who asked
		case said["ID"] != "": // else it could not be taken for another reason, which nobody's leaving will cure
			return &LockedError{ID: said["ID"], Operation: said["Operation"], Who: said["Who"], Created: said["Created"]}
		}
	}
	return nil
}
