package reconfigure

import (
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Mode is what a caller asks for. Only the planner depends on it: operations follow from the actions of the plan.
type Mode string

// The modes. Resume and Suspend are Slurm's power saving. Deploy makes the control node and the persistent nodes, and
// configures all existing nodes. Update makes nodes as declared now, or reboots them. Enlarge makes the missing
// persistent nodes, Shrink removes those above the minimum, Resize does both. Destroy removes the whole cluster.
// MakeImage makes an image of a node. CheckNodes runs the health checks of idle nodes.
const (
	Resume     Mode = "resume"
	Suspend    Mode = "suspend"
	Update     Mode = "update"
	Enlarge    Mode = "enlarge"
	Shrink     Mode = "shrink"
	Resize     Mode = "resize"
	Deploy     Mode = "deploy"
	Destroy    Mode = "destroy"
	MakeImage  Mode = "image"
	CheckNodes Mode = "check-nodes"
)

// RequestID is the number of a request in its journal, from 1.
type RequestID int64

func (id RequestID) String() string { return strconv.FormatInt(int64(id), 10) }

// Request is what one caller asks for, and its progress.
type Request struct {
	ID        RequestID       `json:"id"`
	Mode      Mode            `json:"mode"`
	Nodes     nodeset.NodeSet `json:"nodes"` // empty for the modes of the whole cluster
	Reason    string          `json:"reason,omitempty"`
	Caller    string          `json:"caller,omitempty"` // the user and, over SSH, the remote address
	Jobs      []Job           `json:"jobs,omitempty"`   // the jobs that wait for the nodes, if Slurm names them
	Submitted time.Time       `json:"submitted"`
	Options
	// Deferred has the nodes that the last plan deferred, or the request as a whole. Verdicts has the results of the
	// finished nodes.
	Deferred []Deferral `json:"deferred,omitempty"`
	Verdicts []Verdict  `json:"verdicts,omitempty"`
	// Touched reports whether an operation may have changed something for it.
	Touched bool `json:"-"`
	// Suspended has the nodes of a resume that its caller suspended later.
	Suspended Suspended `json:"-"`
}

// Suspended has nodes of a resume that a later suspend of the same caller names.
type Suspended struct {
	Nodes nodeset.NodeSet
	Again nodeset.NodeSet // those of them that were resumed again later
}

// Needless reports whether the boot of a node that the resume asks for is no longer awaited. Slurm's state of the node
// decides, unless Slurm has resumed the node again.
func (s Suspended) Needless(node string, state NodeState) bool {
	return s.Again.Contains(node) || s.Nodes.Contains(node) && state.GivenUp()
}

// Options are the parameters of single modes.
type Options struct {
	// Reimage reports whether an update makes a new instance even if nothing differs.
	Reimage bool `json:"reimage,omitempty"`
	// Image is the image for an update instead of the declared one; empty: the declared one. For MakeImage it is the name
	// of the new image.
	Image string `json:"image,omitempty"`
	// FromSlurm reports whether Slurm called for a reboot of the nodes: the reasons of the nodes in Slurm have the
	// options.
	FromSlurm bool `json:"from_slurm,omitempty"`
	// DrainTimeout is how long the request waits for the jobs on its nodes to end, from Submitted on.
	DrainTimeout time.Duration `json:"drain_timeout,omitempty"`
	// Insist reports whether a resume ignores the health of node groups.
	Insist bool `json:"insist,omitempty"`
	// Campaign is the campaign that an update belongs to: a node that is as declared does not change; zero: none.
	Campaign CampaignID `json:"campaign,omitempty"`
}

// Open returns the nodes without a verdict.
func (r Request) Open() nodeset.NodeSet {
	done := make([]string, 0, len(r.Verdicts))
	for _, v := range r.Verdicts {
		done = slices.AppendSeq(done, v.Nodes().All())
	}
	return r.Nodes.Difference(nodeset.Of(done...))
}

// IsDeferred reports whether the last plan deferred some of its nodes, or all of it.
func (r Request) IsDeferred() bool { return len(r.Deferred) > 0 }

// Late reports whether the drain timeout of the request has passed.
func (r Request) Late(now time.Time) bool {
	return r.DrainTimeout > 0 && now.Sub(r.Submitted) > r.DrainTimeout
}

// Deferral returns the deferral of a node; the empty name is the request as a whole.
func (r Request) Deferral(node string) (Deferral, bool) {
	i := slices.IndexFunc(r.Deferred, func(d Deferral) bool { return d.Node == node })
	if i < 0 {
		return Deferral{}, false
	}
	return r.Deferred[i], true
}

// Waits reports whether the request is for the whole cluster and has not begun: it waits for operations in progress.
func (r Request) Waits() bool {
	return (r.Mode == Deploy || r.Mode == Destroy) && !r.Touched && !r.IsDeferred()
}

// SupersededBy reports whether a later request is a destroy that ends this one. A destroy does not end an image that
// was begun, but waits for it.
func (r Request) SupersededBy(later Request) bool {
	return later.Mode == Destroy && r.ID < later.ID && (r.Mode != MakeImage || !r.Touched)
}

// Pause is an administrator's order that no operation begins. Requests are accepted, and wait.
type Pause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"` // the administrator
	Reason string    `json:"reason,omitempty"`
}
