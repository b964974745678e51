package terraform

import (
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// LockedError says that somebody else had the state locked for longer than the lock timeout. Nothing was changed, and a later try may succeed. Fields that
// the back end does not tell are empty.
type LockedError struct {
	ID, Operation, Who, Created string
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("Terraform's state is locked by %s since %s for %s; if that process is gone for good, `terraform force-unlock %s` frees it",
		orUnknown(e.Who), orUnknown(e.Created), orUnknown(e.Operation), e.ID)
}

func orUnknown(s string) string {
	if s == "" {
		return "(not told)"
	}
	return s
}

// lockedBy finds in Terraform's errors that a lock is held, and by whom. It is the only place that reads Terraform's prose: there is no such event, and
// terraform-exec has no such error.
func lockedBy(errors []tfjson.Diagnostic) *LockedError {
	for _, d := range errors {
		if d.Summary != "Error acquiring the state lock" {
			continue
		}
		e := &LockedError{}
		fields := map[string]*string{"ID": &e.ID, "Operation": &e.Operation, "Who": &e.Who, "Created": &e.Created}
		for line := range strings.Lines(d.Detail) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if field, ok := fields[name]; ok {
				*field = strings.TrimSpace(value)
			}
		}
		if e.ID != "" { // else it could not be taken for another reason, which nobody's leaving will cure
			return e
		}
	}
	return nil
}
