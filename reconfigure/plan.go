package reconfigure

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Action is what is done to one node.
type Action string

// The actions. Configure runs the playbooks on an instance that is there; the others imply it where an instance comes of them.
const (
	Create    Action = "create"
	Replace   Action = "replace" // by rebuild or by a new instance, as Terraform's preview says; the disk is lost either way
	Reboot    Action = "reboot"
	Configure Action = "configure"
	Remove    Action = "destroy"
	Drain     Action = "drain"   // have Slurm start no more jobs there, so that the node can be planned again when those that run have ended
	Undrain   Action = "undrain" // take back a drain of ours
	// Adopt has Terraform's state take an instance that is in use and that the state does not have as finished.
	Adopt Action = "adopt"
)

// Change is one action on one node, and for whom.
type Change struct {
	Node     string      `json:"node"`
	Action   Action      `json:"action"`
	Spec     Spec        `json:"spec,omitzero"` // what the instance is made of; zero for Remove
	Reason   string      `json:"reason"`
	Requests []RequestID `json:"requests"`
	// Force tells that the caller gave up the jobs on the node, knowingly; else a node with a job on it is left alone.
	Force bool `json:"force,omitempty"`
	// Undrain tells that the drain that the node has now has no purpose any more when the change is made: we drained it, or Slurm did for a reboot after which it
	// is to use the node again. A drain for another reason, which came later, stays.
	Undrain bool `json:"undrain,omitempty"`
	// HandOver tells that Slurm gets the node, when its instance is gone, as one that power saving may bring up again.
	HandOver bool `json:"hand_over,omitempty"`
	// ForJobs tells that every request for it names a job that needs the node.
	ForJobs bool `json:"for_jobs,omitempty"`
	// Probe tells that the node is let through to try its group, of which others are not.
	Probe bool `json:"probe,omitempty"`
	// Note is what the caller is told beside the verdict.
	Note string `json:"note,omitempty"`
	// Deadline is when the node must be ready, or Slurm be told that it will not: it waits no longer. Zero where it does not wait.
	Deadline time.Time `json:"deadline,omitzero"`
	// Since is the newest request's time: an instance that is made for it was created later.
	Since time.Time `json:"since,omitzero"`
	// Retries is how many more instances may be tried if the first one does not come up, within the deadline.
	Retries int `json:"retries,omitempty"`
}

// DeferralKind says what a deferred node, or a deferred request, waits for.
type DeferralKind string

// The kinds.
const (
	WaitsForJobs     DeferralKind = "waits-for-jobs"    // the node is drained, and its jobs have to end
	SlurmUnreachable DeferralKind = "slurm-unreachable" // unknown whether the node has jobs
	CloudUnreachable DeferralKind = "cloud-unreachable" // the cloud does not say what a name means
	CannotPlan       DeferralKind = "cannot-plan"       // of a whole request: the declaration, the cloud or the state cannot be read
)

// Deferral is a node of a request on which nothing can be done now. Without a node it is the whole request. It is looked at
// again from time to time, and ends by itself when what it waits for is there.
type Deferral struct {
	Node    string       `json:"node,omitempty"`
	Request RequestID    `json:"request"`
	Kind    DeferralKind `json:"kind"`
	Reason  string       `json:"reason"`
}

// Rejection is a node that a request names and that nothing can be planned for.
type Rejection struct {
	Node    string    `json:"node"`
	Request RequestID `json:"request"`
	Reason  string    `json:"reason"`
	Class   Class     `json:"class,omitempty"` // where the cloud is the reason
	// Awaited tells that Slurm has asked for the node, and waits for it.
	Awaited bool `json:"-"`
}

// Plan is our decision. It is complete: Desired is the whole map of nodes that Terraform gets, with the changes made.
type Plan struct {
	Changes  []Change        `json:"changes"` // by node, at most one a node
	Rejected []Rejection     `json:"rejected,omitempty"`
	Deferred []Deferral      `json:"deferred,omitempty"`
	Jobs     []Job           `json:"jobs,omitempty"` // that wait for the nodes; one may be named by several requests
	Desired  map[string]Spec `json:"desired"`
	// Shared tells that what no single node owns (key pair, security group, the control node's address) may be made, changed or removed too.
	Shared bool `json:"shared,omitempty"`
	// Everywhere tells that slurm.conf is another one: every node gets it, and its daemons take it up.
	Everywhere bool `json:"everywhere,omitempty"`
}

// Extent is how far a run of the playbooks goes. Nodes that it does not name get no task.
type Extent struct {
	Changed    nodeset.NodeSet // they get everything, and slurmd last
	Everywhere bool            // every node gets Slurm's configuration; if it differs from before, its daemons load it
	// Addresses reports whether nodes have other addresses than before, of which all nodes must know.
	Addresses bool
	// Apart is nodes that the others are told of, but that are left alone themselves: another plan is at work with them.
	Apart nodeset.NodeSet
}

// Nodes is the nodes that have one of the actions; without arguments, all that change.
func (p Plan) Nodes(actions ...Action) nodeset.NodeSet {
	return p.Where(func(c Change) bool { return len(actions) == 0 || slices.Contains(actions, c.Action) })
}

// Where is the nodes whose change is one of those that keep says.
func (p Plan) Where(keep func(Change) bool) nodeset.NodeSet {
	var names []string
	for _, c := range p.Changes {
		if keep(c) {
			names = append(names, c.Node)
		}
	}
	return nodeset.Of(names...)
}

// Of finds the change of a node.
func (p Plan) Of(node string) (Change, bool) {
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Node == node })
	if i < 0 {
		return Change{}, false
	}
	return p.Changes[i], true
}

// Provisions tells whether Terraform has anything to do.
func (p Plan) Provisions() bool {
	return p.Shared || !p.Nodes(Create, Replace, Remove).Empty()
}

// Without is the plan less the changes of some nodes, which stay as they were before it.
func (p Plan) Without(nodes nodeset.NodeSet, before map[string]Spec) Plan {
	rest := Plan{Rejected: p.Rejected, Deferred: p.Deferred, Jobs: p.Jobs, Shared: p.Shared, Everywhere: p.Everywhere, Desired: maps.Clone(p.Desired)}
	for _, c := range p.Changes {
		if !nodes.Contains(c.Node) {
			rest.Changes = append(rest.Changes, c)
			continue
		}
		if spec, ok := before[c.Node]; ok {
			rest.Desired[c.Node] = spec
		} else {
			delete(rest.Desired, c.Node)
		}
	}
	return rest
}

// InShard is the plan for one shard: its part of the map, and the changes of its nodes. Before knows the shards of the nodes that the plan takes out of the map:
// Observation.Shard of what the plan was made from.
func (p Plan) InShard(shard string, before func(node string) string) Plan {
	all := p.Desired
	of := func(node string) string {
		if spec, ok := all[node]; ok {
			return spec.Shard
		}
		return before(node)
	}
	p.Desired = InShard(all, shard)
	p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return of(c.Node) != shard })
	return p
}

// String is the plan in one line, nodes of one action together: "create node[03-04], destroy node07".
func (p Plan) String() string {
	var parts []string
	for _, a := range []Action{Drain, Undrain, Adopt, Create, Replace, Reboot, Configure, Remove} {
		if nodes := p.Nodes(a); !nodes.Empty() {
			parts = append(parts, string(a)+" "+nodes.String())
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
