package reconfigure

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Action is the kind of change of one node.
type Action string

// The actions. Create, Replace, Reboot and Boot include Configure; Start does if the configuration has changed.
const (
	Create Action = "create"
	// by a rebuild, a resize or a new instance, as Terraform plans it; the disk may be lost
	Replace Action = "replace"
	Reboot  Action = "reboot"
	// Boot continues a boot for the request whose worker has ended: nothing is made or rebooted again.
	Boot      Action = "boot"
	Configure Action = "configure" // runs the playbooks on an existing instance
	Start     Action = "start"     // of a stopped or shelved instance
	Stop      Action = "stop"      // or shelve: the instance keeps its disk and its address
	Remove    Action = "destroy"
	// Slurm starts no more jobs on the node; it is planned again when its jobs have ended
	Drain   Action = "drain"
	Undrain Action = "undrain" // ends a drain of this tool
	// Adopt imports an instance in use that is not finished in Terraform's state.
	Adopt Action = "adopt"
	// Capture removes the node's own data from its disk, makes an image of the disk in the cloud, and replaces the
	// instance, or removes it if HandOver is set.
	Capture Action = "capture"
	// CheckHealth runs the health checks of the node's group, while the node is drained.
	CheckHealth Action = "check"
)

// Provisions reports whether Terraform carries out the action.
func (a Action) Provisions() bool {
	switch a {
	case Create, Replace, Start, Stop, Remove:
		return true
	}
	return false
}

// Boots reports whether the action is a boot of an instance that exists and keeps its disk.
func (a Action) Boots() bool { return a == Reboot || a == Boot || a == Start }

// Change is one action on one node, with its reason and its requests.
type Change struct {
	Node     string      `json:"node"`
	Action   Action      `json:"action"`
	Spec     Spec        `json:"spec,omitzero"` // the source of the instance; zero for Remove
	Reason   string      `json:"reason"`
	Requests []RequestID `json:"requests"`
	// Force reports whether jobs on the node may be lost. Without it, the guard refuses the change while a job runs.
	Force bool `json:"force,omitempty"`
	// Undrain reports whether the current drain of the node ends with the change: this tool has set it, or Slurm for
	// a reboot after which it uses the node again. A drain for another reason that is set later stays.
	Undrain bool `json:"undrain,omitempty"`
	// HandOver reports whether the node becomes a cloud node after its instance is removed: power saving may resume it
	// again.
	HandOver bool `json:"hand_over,omitempty"`
	// At is the phase at which Boot continues: PhaseBoot, PhaseConfigure or PhaseVerify; or PhaseApply, if it is likely
	// but not certain that the instance was booted for the request. A Start with a phase continues there if the
	// instance runs: an operation for the request has started it.
	At Phase `json:"at,omitempty"`
	// Image is the name of the image that Capture makes.
	Image string `json:"image,omitempty"`
	// ForJobs reports whether every request for the node names a job that needs it.
	ForJobs bool `json:"for_jobs,omitempty"`
	// Probe reports whether the node is its group's probe while the breaker is open.
	Probe bool `json:"probe,omitempty"`
	// Note is a message for the caller in addition to the verdict.
	Note string `json:"note,omitempty"`
	// Deadline is the time until which the node must be ready, or be reported to Slurm as failed. Zero if Slurm does
	// not wait for it.
	Deadline time.Time `json:"deadline,omitzero"`
	// Since is the time of the newest request: an instance for it must be newer.
	Since time.Time `json:"since,omitzero"`
	// Retries is the number of further instances that may be tried, within the deadline, if the first one does not
	// become ready.
	Retries int `json:"retries,omitempty"`
	// Fallbacks are tried, in their order, while the cloud has no room for the flavor of Spec in its zone.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
}

// Fallback is what an instance may be made of, and where, in place of what is declared first.
type Fallback struct {
	FlavorID string `json:"flavor_id"`
	Zone     string `json:"availability_zone,omitempty"`
}

// DeferralKind is what a deferred node, or a deferred request, waits for.
type DeferralKind string

// The kinds.
const (
	WaitsForJobs     DeferralKind = "waits-for-jobs"    // the jobs of the drained node must end
	SlurmUnreachable DeferralKind = "slurm-unreachable" // it is unknown whether the node has jobs
	CloudUnreachable DeferralKind = "cloud-unreachable" // the cloud cannot resolve a name at present
	// of a whole request: the declaration, the cloud or the state cannot be read
	CannotPlan DeferralKind = "cannot-plan"
)

// Deferral is a node of a request that cannot be changed now; without a node, the whole request. The request is
// planned again from time to time, until it has no deferrals.
type Deferral struct {
	Node    string       `json:"node,omitempty"`
	Request RequestID    `json:"request"`
	Kind    DeferralKind `json:"kind"`
	Reason  string       `json:"reason"`
}

// Rejection is a node of a request for which nothing can be planned. Unknown nodes share one rejection: Node is then
// their hostlist.
type Rejection struct {
	Node    string    `json:"node"`
	Request RequestID `json:"request"`
	Reason  string    `json:"reason"`
	Class   Class     `json:"class,omitempty"` // if the reason is an error of the cloud
	// Awaited reports whether Slurm waits for the node.
	Awaited bool `json:"-"`
}

// Plan is the decision of the planner. Desired is the whole map of nodes after the changes.
type Plan struct {
	Changes  []Change        `json:"changes"` // sorted by node, at most one for each
	Rejected []Rejection     `json:"rejected,omitempty"`
	Deferred []Deferral      `json:"deferred,omitempty"`
	Jobs     []Job           `json:"jobs,omitempty"` // the jobs that wait for the nodes; see Merged
	Desired  map[string]Spec `json:"desired"`
	// Shared reports whether Terraform may also change shared resources, which belong to no node: key pair, security
	// group, address of the control node.
	Shared bool `json:"shared,omitempty"`
	// KeptPorts reports whether a run that is Shared also makes the missing ports of nodes without an instance.
	// Terraform begins no instance before it has made them: the cloud MUST have room for them.
	KeptPorts bool `json:"-"`
	// Everywhere reports whether slurm.conf changes, so that every node gets it and the daemons load it.
	Everywhere bool `json:"everywhere,omitempty"`
	// Conf is slurmctld's new configuration; nil: the declared one when the playbooks run.
	Conf *SlurmConf `json:"-"`
}

// Extent is the scope of a run of the playbooks. Other nodes get no task.
type Extent struct {
	Changed    nodeset.NodeSet // the nodes that are configured completely; slurmd is started last
	Everywhere bool            // every node gets slurm.conf; if it differs from before, the daemons load it
	// Conf is slurmctld's new configuration; nil: the declared one when the playbooks run.
	Conf *SlurmConf
	// Addresses reports whether the address of a node has changed, so that all nodes must get the new ones.
	Addresses bool
	// Apart has nodes that are in the inventory and get no task, because other operations change them at the same
	// time.
	Apart nodeset.NodeSet
}

// Configured has the playbooks' facts about a node that they have configured.
type Configured struct {
	Installing time.Duration // how long the installation of packages took that its image lacks; zero: it has them all
	Clock      time.Duration // how far its clock is ahead of the control host's; negative: behind
}

// Nodes returns the nodes with one of the actions; without arguments, all nodes with a change.
func (p Plan) Nodes(actions ...Action) nodeset.NodeSet {
	return p.Where(func(c Change) bool { return len(actions) == 0 || slices.Contains(actions, c.Action) })
}

// Where returns the nodes for whose change keep returns true.
func (p Plan) Where(keep func(Change) bool) nodeset.NodeSet {
	var names []string
	for _, c := range p.Changes {
		if keep(c) {
			names = append(names, c.Node)
		}
	}
	return nodeset.Of(names...)
}

// Of returns the change of a node; false if it has none.
func (p Plan) Of(node string) (Change, bool) {
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Node == node })
	if i < 0 {
		return Change{}, false
	}
	return p.Changes[i], true
}

// Provisions reports whether Terraform has anything to do.
func (p Plan) Provisions() bool { return p.Shared || !p.Provisioned().Empty() }

// Provisioned returns the nodes whose changes Terraform carries out.
func (p Plan) Provisioned() nodeset.NodeSet {
	return p.Where(func(c Change) bool { return c.Action.Provisions() })
}

// Without returns the plan without the changes of some nodes. The map of nodes has their previous entries.
func (p Plan) Without(nodes nodeset.NodeSet, before map[string]Spec) Plan {
	rest := Plan{Rejected: p.Rejected, Deferred: p.Deferred, Jobs: p.Jobs, Shared: p.Shared, Everywhere: p.Everywhere,
		Conf: p.Conf, Desired: maps.Clone(p.Desired)}
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

// InShard returns the part of the plan for one shard: its entries of the map, and the changes of its nodes. The
// function before returns the shards of nodes that the plan removes from the map: Snapshot.Shard of the plan's
// snapshot.
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

// String returns the changes in one line, by action: "create node[03-04], destroy node07".
func (p Plan) String() string {
	var parts []string
	for _, a := range []Action{
		Drain, Undrain, Adopt, Capture, CheckHealth, Create, Replace, Start, Reboot, Boot, Configure, Stop, Remove,
	} {
		if nodes := p.Nodes(a); !nodes.Empty() {
			parts = append(parts, string(a)+" "+nodes.String())
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
