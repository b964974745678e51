package status

import (
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// RefusedCall is a call that the gate refused, with the name of its key.
type RefusedCall struct {
	Key string `json:"key"`
	reconfigure.RefusedCall
}

func refusedCalls(keys []reconfigure.KeyUse) []RefusedCall {
	all := []RefusedCall{}
	for _, k := range keys {
		for _, call := range k.Refused {
			all = append(all, RefusedCall{k.Key, call})
		}
	}
	return all
}

// refusals returns a line for each key whose calls were refused on the last day. JSON also has older refusals.
func refusals(calls []RefusedCall, now time.Time) (lines []string) {
	const day = 24 * time.Hour
	count := 0
	for i, c := range calls {
		if now.Sub(c.Time) < day {
			count += c.Count
		}
		if i+1 < len(calls) && calls[i+1].Key == c.Key {
			continue
		}
		if count > 0 {
			lines = append(lines, fmt.Sprintf("Refused calls with the key of %s: %d, the last one %s ago from %s: %s: %s",
				c.Key, count, text.Ago(now, c.Time), text.OneLine(c.Peer), c.Why, c.Command))
		}
		count = 0
	}
	return lines
}
