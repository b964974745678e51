package explain

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Each class of failure has advice, and each phase of an operation has words.
func TestEveryFailureHasAdvice(t *testing.T) {
	for _, class := range reconfigure.Classes() {
		var s Story
		s.adviseOnFailure(Facts{}, Step{Nodes: nodeset.Of("n1"), Class: class, Result: Failed})
		if len(s.Advice) == 0 {
			t.Errorf("%s has no advice", class)
		}
	}
	for phase, work := range works {
		if work.source == "" || work.what == "" || rank(phase) < 0 {
			t.Errorf("%s has no words or no rank", phase)
		}
		if awaited[phase] == "" && phase != reconfigure.PhaseRequested && phase != reconfigure.PhasePlan {
			t.Errorf("%s has no words for its wait", phase)
		}
	}
}
