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
	// Held tells that it waits: until jobs have ended, for another try, or until what keeps it from being planned is over. Waits says what for, and Settled is the
	// verdicts on those of its nodes that need not wait any more.
	Held    bool      `json:"held,omitempty"`
	Waits   []Wait    `json:"waits,omitempty"`
	Settled []Verdict `json:"settled,omitempty"`
	// Touched tells that a batch may have done something for it: not so of a request that could not be planned yet, however often that was tried.
	Touched bool `json:"-"`
	// Passed is when the first batch began after it was written down, with it or without; zero: none has yet.
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

// Open is the nodes that there is no verdict on yet.
func (r Request) Open() nodeset.NodeSet {
	settled := make([]string, len(r.Settled))
	for i, v := range r.Settled {
		settled[i] = v.Node
	}
	return r.Nodes.Difference(nodeset.Of(settled...))
}

// Wait finds what the request waits for with a node, or under the empty name as a whole.
func (r Request) Wait(node string) (Wait, bool) {
	i := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.Node == node })
	if i < 0 {
		return Wait{}, false
	}
	return r.Waits[i], true
}
