package reconfigure

import "time"

// KeyUse is the record of the calls of one key that the gate admits: the key of slurmctld's scripts, or that of a
// node.
type KeyUse struct {
	Key string `json:"key"`
	// Left is the number of calls that the key may make at the time At.
	Left float64   `json:"left"`
	At   time.Time `json:"at,omitzero"`
	// Refused has the newest refusals, sorted by age, the oldest first.
	Refused []RefusedCall `json:"refused,omitempty"`
}

// RefusedCall is a call that the gate refused. Consecutive equal refusals are one RefusedCall.
type RefusedCall struct {
	Time    time.Time `json:"time"`    // the time of the last one
	Peer    string    `json:"peer"`    // the address from which it came
	Why     string    `json:"why"`     // for administrators; the caller is not told
	Command string    `json:"command"` // quoted, and shortened
	Count   int       `json:"count"`   // the minimum number of such calls
}
