package reconfigure

import (
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Phase is the step of an operation.
type Phase string

// The phases, in order.
const (
	PhaseRequested Phase = "requested" // before any plan
	PhasePlan      Phase = "plan"
	PhaseDrain     Phase = "drain"
	PhaseClean     Phase = "clean"     // cleaning a node's disk, before an image is made of it
	PhaseImage     Phase = "image"     // until the cloud has the image
	PhaseApply     Phase = "apply"     // in a run of Terraform
	PhaseBoot      Phase = "boot"      // until SSH answers
	PhaseConfigure Phase = "configure" // in a run of Ansible
	PhaseVerify    Phase = "verify"    // until slurmd has registered
	PhaseReport    Phase = "report"    // to Slurm
)

// Event is one durable fact: the beginning or the end of an operation's phase, or a note. Without a node it concerns
// all nodes of its plan.
type Event struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	Plan    int64     `json:"plan"` // the number of the plan that started the operation
	Node    string    `json:"node,omitempty"`
	Phase   Phase     `json:"phase"`
	Level   Level     `json:"level"`
	Message string    `json:"message"`
	// Life is the current record of the node's instance. The journal stores lives separately; the events that it
	// returns have none. A life without an instance means that the node no longer has one: the last instance ended at
	// Removed. An event without a phase has only a life.
	Life *Life `json:"-"`
}

// Level is the meaning of an event for its node.
type Level string

// The levels: a phase begins; it succeeds; the operation fails in it; a message for people only.
const (
	Begun  Level = "begun"
	Done   Level = "done"
	Failed Level = "failed"
	Note   Level = "note"
)

// OfResource reports whether the event is a note about a step of Terraform at one resource. The journal has dozens of
// them for each node. A note that OfResource does not recognize is shown to people, which does no harm.
func (e Event) OfResource() bool { return e.Level == Note && ofResource.MatchString(e.Message) }

// ofResource matches the notes of package terraform: "create TYPE.NAME: done after 12 s".
var ofResource = regexp.MustCompile(
	`^[a-z]+ (module\.|data\.)?[\w-]+\.[\w.-]+(: (\d+ s so far|(done|failed) after \d+ s))?$`,
)

// Status is the result of the operation on a node.
type Status string

// The results.
const (
	StatusDone      Status = "done"      // done as asked
	StatusUnchanged Status = "unchanged" // there was nothing to do
	StatusFailed    Status = "failed"
	StatusRefused   Status = "refused"  // by the fence or the guard; nothing was changed
	StatusRejected  Status = "rejected" // by the planner; nothing was changed
)

// Verdict is the result for one node of a request, or for several nodes that share a Rejection.
type Verdict struct {
	Node   string `json:"node"` // or a hostlist
	Action Action `json:"action,omitempty"`
	Status Status `json:"status"`
	Phase  Phase  `json:"phase,omitempty"` // in which it failed
	Class  Class  `json:"class,omitempty"` // of the failure
	Reason string `json:"reason,omitempty"`
}

// Nodes returns the nodes that the verdict is for.
func (v Verdict) Nodes() nodeset.NodeSet {
	if !strings.ContainsAny(v.Node, "[,") {
		return nodeset.Of(v.Node)
	}
	nodes, _ := nodeset.Parse(v.Node) // a String of a NodeSet always parses
	return nodes
}

// Outcome is the result for the caller. A request gets exactly one, when all of its nodes have verdicts; until then
// the verdicts are in the request.
type Outcome struct {
	Request  RequestID  `json:"request"`
	Deferred []Deferral `json:"-"` // the deferrals of a request that has no outcome yet
	Verdicts []Verdict  `json:"verdicts"`
	Error    string     `json:"error,omitempty"` // why the whole request failed
	Code     Code       `json:"code"`
	Finished time.Time  `json:"finished"`
}

// Code is the summary of an outcome; cmd/reconfigure maps it to exit codes.
type Code string

// The codes.
const (
	CodeDone      Code = "done"      // all nodes succeeded
	CodePartial   Code = "partial"   // some nodes succeeded
	CodeFailed    Code = "failed"    // no node succeeded
	CodeRefused   Code = "refused"   // the fence refused the changes
	CodeCancelled Code = "cancelled" // the request was cancelled, or undone by a later one, before an operation began
)

// Failures has the errors of the nodes that failed, by node. The other nodes succeeded.
type Failures map[string]error

// Of returns the failures of some nodes.
func (f Failures) Of(nodes nodeset.NodeSet) Failures {
	theirs := Failures{}
	for node := range f.Nodes().Intersect(nodes).All() {
		theirs[node] = f[node]
	}
	return theirs
}

// Nodes returns the nodes that failed.
func (f Failures) Nodes() nodeset.NodeSet { return nodeset.Collect(maps.Keys(f)) }
