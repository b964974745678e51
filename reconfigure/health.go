package reconfigure

import "time"

// Health has the recent failures of a node group to get new instances. It has only facts: the settings at the time of
// a decision say how long they count. A value with only the name is a group without failures.
type Health struct {
	Group string `json:"group"`
	// the last lack of room, unless an instance planned after it was made
	Full     Setback   `json:"full,omitzero"`
	Failures int       `json:"failures,omitempty"` // consecutive boot failures of any nodes of the group
	Since    time.Time `json:"since,omitzero"`     // time of the first of them
	Last     Setback   `json:"last,omitzero"`      // the last of them
	Probe    Probe     `json:"probe,omitzero"`     // the node that tries the group
}

// Setback is one failure of a node.
type Setback struct {
	Node   string    `json:"node"`
	Class  Class     `json:"class,omitempty"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Probe is the one node of a group that may be made while its breaker is open. It ends with the node's verdict.
type Probe struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
}

// Well reports whether the group has no failures.
func (h Health) Well() bool { return h == Health{Group: h.Group} }

// Trying returns the health with a node as the group's probe.
func (h Health) Trying(node string, now time.Time) Health {
	h.Probe = Probe{node, now}
	return h
}
