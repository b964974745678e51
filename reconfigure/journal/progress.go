package journal

import (
	"encoding/json"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// progress is the stored progress of a request without an outcome.
type progress struct {
	Verdicts []reconfigure.Verdict  `json:"verdicts"`
	Deferred []reconfigure.Deferral `json:"deferred,omitempty"`
}

// formerProgress is the form of versions before 8.
type formerProgress struct {
	Waits []formerWait `json:"waits"`
}

// formerWait is a deferral in that form. Without a node it is that of the request.
type formerWait struct {
	Node    string                `json:"node"`
	Request reconfigure.RequestID `json:"request"`
	Reason  string                `json:"reason"`
	Tries   int                   `json:"tries"`  // for a node that was to be retried at once
	Veiled  bool                  `json:"veiled"` // Slurm did not answer
}

func encodeProgress(o reconfigure.Outcome) (string, error) {
	text, err := json.Marshal(progress{append([]reconfigure.Verdict{}, o.Verdicts...), o.Deferred})
	return string(text), err
}

// decodeProgress reads all forms. The first one was a list of verdicts.
func decodeProgress(r *reconfigure.Request, text string) error {
	if err := json.Unmarshal([]byte(text), &r.Verdicts); err == nil {
		return nil
	}
	var now progress
	var former formerProgress
	for _, form := range []any{&now, &former} {
		if err := json.Unmarshal([]byte(text), form); err != nil {
			return fmt.Errorf("its progress: %w", err)
		}
	}
	r.Verdicts, r.Deferred = now.Verdicts, append(now.Deferred, former.deferrals()...)
	return nil
}

// deferrals leaves out nodes that were to be retried: they are planned like any other node.
func (f formerProgress) deferrals() (all []reconfigure.Deferral) {
	for _, w := range f.Waits {
		if w.Tries > 0 {
			continue
		}
		all = append(all, reconfigure.Deferral{Node: w.Node, Request: w.Request, Kind: w.kind(), Reason: w.Reason})
	}
	return all
}

func (w formerWait) kind() reconfigure.DeferralKind {
	switch {
	case w.Veiled:
		return reconfigure.SlurmUnreachable
	case w.Node == "":
		return reconfigure.CannotPlan
	}
	return reconfigure.WaitsForJobs
}
