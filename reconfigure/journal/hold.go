package journal

import (
	"encoding/json"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// hold is what is kept of a request that waits.
type hold struct {
	Verdicts []reconfigure.Verdict  `json:"verdicts"`
	Waits    []reconfigure.Deferral `json:"waits,omitempty"`
}

func encodeHold(o reconfigure.Outcome) (string, error) {
	text, err := json.Marshal(hold{Verdicts: append([]reconfigure.Verdict{}, o.Verdicts...), Waits: o.Deferred})
	return string(text), err
}

// decodeHold makes a request one that waits. The first version that held requests kept no more than a list of verdicts.
func decodeHold(r *reconfigure.Request, text string) error {
	var kept hold
	if err := json.Unmarshal([]byte(text), &kept.Verdicts); err != nil {
		kept.Verdicts = nil
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			return fmt.Errorf("what it waits for: %w", err)
		}
	}
	r.Held, r.Verdicts, r.Deferred = true, kept.Verdicts, kept.Deferred
	return nil
}
