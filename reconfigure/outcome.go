package reconfigure

import (
	"maps"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Phase is where a node is on its way.
type Phase string

// The phases, in order.
const (
	PhaseRequested Phase = "requested"
	PhasePlan      Phase = "plan"
	PhaseDrain     Phase = "drain"
	PhaseApply     Phase = "apply"
	PhaseBoot      Phase = "boot"
	PhaseConfigure Phase = "configure"
	PhaseVerify    Phase = "verify"
	PhaseReport    Phase = "report"
)

// Event is one durable fact: that the operation on a node entered a phase, or what came of it. Without a node it concerns
// all nodes of its plan.
type Event struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	Plan    int64     `json:"plan"` // the number of the plan that started the operation
	Node    string    `json:"node,omitempty"`
	Phase   Phase     `json:"phase"`
	Level   Level     `json:"level"`
	Message string    `json:"message"`
}

// Level tells what an event means for its node.
type Level string

// The levels. Begun and Done bracket a phase; Failed ends the node's way; Note is for people only.
const (
	Begun  Level = "begun"
	Done   Level = "done"
	Failed Level = "failed"
	Note   Level = "note"
)

// Status is how a node's way ended.
type Status string

// The ends: done as asked; nothing to do; failed; held back by the fence; rejected by the planner. The last two were not touched.
const (
	StatusDone      Status = "done"
	StatusUnchanged Status = "unchanged"
	StatusFailed    Status = "failed"
	StatusRefused   Status = "refused"
	StatusRejected  Status = "rejected"
)

// Verdict is what became of one node of a request.
type Verdict struct {
	Node   string `json:"node"`
	Action Action `json:"action,omitempty"`
	Status Status `json:"status"`
	Phase  Phase  `json:"phase,omitempty"` // where it failed
	Class  Class  `json:"class,omitempty"` // what kind of failure it was
	Reason string `json:"reason,omitempty"`
}

// Outcome is what a caller gets. A request has exactly one. While any of its nodes is deferred it has none yet: what is
// known so far is kept with the request.
type Outcome struct {
	Request  RequestID  `json:"request"`
	Deferred []Deferral `json:"-"` // of a request that has no outcome yet
	Verdicts []Verdict  `json:"verdicts"`
	Error    string     `json:"error,omitempty"` // what kept the whole request from being carried out
	Code     Code       `json:"code"`
	Finished time.Time  `json:"finished"`
}

// Code is an outcome as a caller that looks at one number sees it; cmd/reconfigure maps it to exit codes.
type Code string

// The codes.
const (
	CodeDone      Code = "done"      // every node ended as asked
	CodePartial   Code = "partial"   // some nodes did, some did not
	CodeFailed    Code = "failed"    // no node did
	CodeRefused   Code = "refused"   // the fence would not let the plan through
	CodeCancelled Code = "cancelled" // it was taken back, or undone by a later one, before anything was done for it
)

// Failures says of each node that failed why. Nodes that are not in it are fine.
type Failures map[string]error

// Of is the failures of these nodes alone.
func (f Failures) Of(nodes nodeset.NodeSet) Failures {
	theirs := Failures{}
	for node := range f.Nodes().Intersect(nodes).All() {
		theirs[node] = f[node]
	}
	return theirs
}

// Nodes is those that failed.
func (f Failures) Nodes() nodeset.NodeSet { return nodeset.Collect(maps.Keys(f)) }
