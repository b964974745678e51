package reconfigure

import (
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Mode is what a caller asks for. Only the planner looks at it: every later step follows from the actions of the plan.
type Mode string

// The modes. Deploy makes the control node and the persistent nodes and configures everything that is there; Update makes nodes what is declared now, or
// reboots them; Enlarge makes the persistent nodes that are missing, Shrink removes those that are too many, Resize does both; Destroy removes the whole cluster.
const (
	Resume  Mode = "resume"
	Suspend Mode = "suspend"
	Update  Mode = "update"
	Enlarge Mode = "enlarge"
	Shrink  Mode = "shrink"
	Resize  Mode = "resize"
	Deploy  Mode = "deploy"
	Destroy Mode = "destroy"
)

// RequestID numbers the requests of one journal, from 1.
type RequestID int64

func (id RequestID) String() string { return strconv.FormatInt(int64(id), 10) }

// Request is one caller's wish.
type Request struct {
	ID        RequestID       `json:"id"`
	Mode      Mode            `json:"mode"`
	Nodes     nodeset.NodeSet `json:"nodes"` // empty for the modes that mean the whole cluster
	Reason    string          `json:"reason,omitempty"`
	Caller    string          `json:"caller,omitempty"` // who asks: user and, over SSH, from where
	Jobs      []Job           `json:"jobs,omitempty"`   // whom the nodes are for, where Slurm said so
	Submitted time.Time       `json:"submitted"`
	Options
	// Deferred is what its nodes wait for, or under no node the request as a whole, as the last plan had it. Verdicts is
	// what became of those of its nodes that are done.
	Deferred []Deferral `json:"deferred,omitempty"`
	Verdicts []Verdict  `json:"verdicts,omitempty"`
	// Touched reports whether an operation may have done something for it. Planning alone does nothing.
	Touched bool `json:"-"`
	// Passed is when the first plan was started after the request was submitted, with it or without it; zero: none yet.
	Passed time.Time `json:"-"`
}

// Options is what single modes are told besides the nodes.
type Options struct {
	// Reimage has an update make a new instance also where nothing differs.
	Reimage bool `json:"reimage,omitempty"`
	// Image has an update take this image instead of the one that is declared.
	Image string `json:"image,omitempty"`
	// FromSlurm tells that Slurm reboots the nodes: what is to be done stands in the reasons that they have there.
	FromSlurm bool `json:"from_slurm,omitempty"`
	// DrainTimeout is how long the jobs on a node are waited for, from Submitted on.
	DrainTimeout time.Duration `json:"drain_timeout,omitempty"`
	// Insist has a resume be tried also where its node group does not fare well.
	Insist bool `json:"insist,omitempty"`
}

// Open is the nodes without a verdict.
func (r Request) Open() nodeset.NodeSet {
	done := make([]string, len(r.Verdicts))
	for i, v := range r.Verdicts {
		done[i] = v.Node
	}
	return r.Nodes.Difference(nodeset.Of(done...))
}

// IsDeferred reports whether the last plan could do nothing for some of its nodes, or for all of it.
func (r Request) IsDeferred() bool { return len(r.Deferred) > 0 }

// Deferral finds what the request waits for with a node, or under the empty name as a whole.
func (r Request) Deferral(node string) (Deferral, bool) {
	i := slices.IndexFunc(r.Deferred, func(d Deferral) bool { return d.Node == node })
	if i < 0 {
		return Deferral{}, false
	}
	return r.Deferred[i], true
}
