// Package reconcile compares the data of Slurm, Terraform, the cloud and the journal about the same nodes, and lists
// the differences. Compare is pure: it takes a snapshot, asks no source and changes nothing. A finding includes its
// fix. Reconciler asks the sources and the journal, and carries out the fixes.
//
// Only what belongs to the cluster is judged: declared nodes, nodes in Terraform's state or map, and servers with the
// cluster's metadata. Other objects in Slurm or the cloud are not listed. Nodes with a request at work are not
// judged, since they differ while they change.
package reconcile

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Busy has the nodes with requests at work.
type Busy struct {
	Nodes nodeset.NodeSet // the nodes of requests without an outcome, and nodes with an event during the snapshot
	Whole bool            // such a request is for the whole cluster
	// Calm has nodes to which nothing has happened for longer than Slurm takes to power a node down.
	Calm nodeset.NodeSet
}

// Kind is the kind of a difference.
type Kind string

// The kinds. The words are stable for programs.
const (
	Orphan Kind = "orphan" // the cloud has an instance of the cluster that Terraform does not know
	// the cloud has a port of the cluster that Terraform does not know and no server uses
	LeakedPort Kind = "leaked_port"
	Doubled    Kind = "doubled"     // an orphan, and not the only instance of its name
	Lost       Kind = "lost"        // Terraform has an instance that the cloud does not have
	Tainted    Kind = "tainted"     // an instance is tainted in Terraform's state, or only a part of it exists
	Unfinished Kind = "unfinished"  // Terraform's map and its state differ: an instance is missing, or was not removed
	Unadopted  Kind = "unadopted"   // Slurm uses an instance that is not finished in Terraform's state
	Leaked     Kind = "leaked"      // Slurm does not use the node, but its instance exists
	Undeclared Kind = "undeclared"  // the same for an undeclared node
	PowersUp   Kind = "powers_up"   // Slurm waits for the node, but there is no request for it
	PowersDown Kind = "powers_down" // Slurm powers the node down, but there is no request for it
	Missing    Kind = "missing"     // a persistent node or the control node has no instance
	Hollow     Kind = "hollow"      // the node is up in Slurm, but it has no instance
	SetDown    Kind = "set_down"    // this tool set the node DOWN in Slurm, and did not hand it back
	// Slurm has powered a cloud node down, and never gives it to a job again
	Forgotten Kind = "forgotten"
	// Slurm still powers a node down although its instance was removed long ago
	Lingering Kind = "lingering"
	GivenUp   Kind = "given_up"      // Slurm has powered down a persistent node
	Stopped   Kind = "stopped"       // without a request, the instance is shut off, paused, suspended or in ERROR
	Silent    Kind = "silent"        // the instance of a persistent node runs, but its slurmd does not answer
	Drained   Kind = "drained"       // this tool has drained the node, but there is no request for it
	Cleaned   Kind = "cleaned"       // the node's disk was cleaned for an image, and the node was not made anew
	Image     Kind = "wrong_image"   // the instance has another image than in Terraform's map
	Address   Kind = "wrong_address" // the sources have different addresses of the instance
	Outdated  Kind = "outdated"      // a note: the instance differs from the declaration, which only an update changes
	Aged      Kind = "aged"          // a note: the instance is older than the maximum of its group
	Unchecked Kind = "unchecked"     // a note: the last health check of the node is older than its group's interval
)

// Note reports whether the kind is only for information: the sources do not differ.
func (k Kind) Note() bool { return k == Outdated || k == Aged || k == Unchecked }

// Fix is a remedy for a finding that needs no administrator. It never costs a job.
type Fix string

// The fixes. The first six are requests, which the planner and the guard check again; the others are not.
const (
	None     Fix = ""
	Suspend  Fix = "suspend"
	Resume   Fix = "resume"
	Enlarge  Fix = "enlarge"
	Renew    Fix = "renew"     // an update that makes the instance anew when its jobs have ended
	Check    Fix = "check"     // of the health of an idle node
	Update   Fix = "update"    // when its jobs have ended: the instance boots, or is made as declared, and the drain ends
	Delete   Fix = "delete"    // of the server or port, in the cloud: Terraform cannot remove what it does not know
	HandBack Fix = "hand_back" // of the node, to Slurm's power saving
	Retire   Fix = "retire"    // by Slurm: it powers the node down when its jobs have ended
)

// Mode returns the mode of the request that carries out the fix; false if the fix is no request.
func (f Fix) Mode() (reconfigure.Mode, bool) {
	mode, ok := map[Fix]reconfigure.Mode{
		Suspend: reconfigure.Suspend, Resume: reconfigure.Resume, Enlarge: reconfigure.Enlarge,
		Renew: reconfigure.Update, Update: reconfigure.Update,
		Check: reconfigure.CheckNodes,
	}[f]
	return mode, ok
}

// Finding is one thing that differs at one node.
type Finding struct {
	Node   string `json:"node"`
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail"`
	Server string `json:"server,omitempty"` // the id of its server; empty if it has none
	Port   string `json:"port,omitempty"`   // the id of its port; empty if it has none
	Fix    Fix    `json:"fix,omitempty"`
	// Command is for an administrator, if there is no fix; it may be empty. In it, Nodes stands for the node.
	Command string `json:"command,omitempty"`
}

// Nodes stands for the nodes in a Finding's Command, so that several nodes can share one.
const Nodes = "{NODES}"

// Compare lists the differences, by node, and then the nodes whose instances are too old. An empty result means that
// the sources that answered agree. An instance or port that Terraform does not know counts only from the age minAge
// on, since Terraform may be making a younger one.
func Compare(
	cluster reconfigure.Cluster, seen snapshot.Snapshot, busy Busy, minAge time.Duration,
	commands reconfigure.CloudCommands,
) []Finding {
	if busy.Whole {
		return nil
	}
	c := comparison{
		cluster: cluster, busy: busy, persistent: cluster.Persistent(), declared: cluster.Nodes(), seen: seen, minAge: minAge,
		commands: commands, known: knownIDs(seen.Instances), slurm: seen.Answers(snapshot.Slurm),
		cloud: seen.Answers(snapshot.Cloud), terraform: seen.Answers(snapshot.Terraform),
	}
	var all []Finding
	for node := range c.ours().Difference(busy.Nodes).All() {
		all = append(all, c.judge(node)...)
	}
	return append(all, c.aged(all)...)
}

// Confirm returns the later findings that an earlier comparison had too. Slurm does not report when a state began,
// and the sources cannot be asked at the same instant. So a finding that occurs once may be an intermediate state.
func Confirm(earlier, later []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(later), func(f Finding) bool {
		return !slices.ContainsFunc(earlier, func(e Finding) bool {
			return e.Node == f.Node && e.Kind == f.Kind && e.Server == f.Server && e.Port == f.Port && e.Fix == f.Fix
		})
	})
}

type comparison struct {
	cluster              reconfigure.Cluster
	persistent, declared nodeset.NodeSet
	seen                 snapshot.Snapshot
	busy                 Busy
	slurm                bool // Slurm answers; likewise below
	cloud, terraform     bool
	minAge               time.Duration
	commands             reconfigure.CloudCommands
	known                map[string]bool // the ids in Terraform's state
}

func knownIDs(instances map[string]reconfigure.Instance) map[string]bool {
	ids := map[string]bool{}
	for _, i := range instances {
		if i.ID != "" {
			ids[i.ID] = true
		}
	}
	return ids
}

// ours returns the nodes that may be judged.
func (c comparison) ours() nodeset.NodeSet {
	names := []string{c.cluster.Control.Name}
	names = slices.AppendSeq(names, maps.Keys(c.seen.Desired))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Instances))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Servers))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Aside))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Ports))
	all := c.declared.Union(nodeset.Of(names...))
	if c.cluster.Attached() {
		all = all.Difference(nodeset.Of(c.cluster.Control.Name)) // the site runs it
	}
	return all
}

func (c comparison) judge(node string) []Finding {
	v := c.view(node)
	all := c.strangers(v)
	if f, ok := c.existence(v); ok {
		all = append(all, c.withoutDouble(v, f, all))
	}
	all = append(all, c.attributes(v)...)
	all = append(append(all, c.aside(node)...), c.leakedPorts(v)...)
	for i := range all {
		all[i].Node = node
		if node == c.cluster.Control.Name && all[i].Command == updating {
			all[i].Command = c.starting(v) // no mode updates it
		}
		if !c.fixable() {
			all[i].Fix = None
		}
	}
	return all
}

// fixable reports whether anything may be fixed at all. If a source is unreachable, a finding may be wrong. Without a
// control node no other node can be made.
func (c comparison) fixable() bool {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	return c.slurm && c.cloud && c.terraform && deployed
}

// withoutDouble removes a fix that would make a second instance with the node's name.
func (c comparison) withoutDouble(v view, f Finding, strangers []Finding) Finding {
	makes := f.Fix == Resume || f.Fix == Enlarge || f.Fix == Update
	removed := 0
	for _, s := range strangers {
		if s.Fix == Delete {
			removed++
		}
	}
	if f.Kind == Unadopted && len(v.strange) == 1 && len(c.seen.Servers[v.node]) == 1 {
		return f // it is the instance to adopt
	}
	if makes && removed < len(v.strange) {
		f.Fix = None
		f.Detail += "; the cloud has an instance with its name that Terraform does not know"
	}
	return f
}

// view has the sources' data about one node.
type view struct {
	node     string
	state    reconfigure.NodeState
	known    bool // Slurm knows the node
	instance reconfigure.Instance
	made     bool // Terraform's state has the instance, or a part of it
	spec     reconfigure.Spec
	told     bool                 // Terraform's map has the node
	own      *reconfigure.Server  // the instance in the cloud
	strange  []reconfigure.Server // other servers of the cluster with its name
}

func (c comparison) view(node string) view {
	v := view{node: node}
	v.state, v.known = c.seen.States[node]
	v.instance, v.made = c.seen.Instances[node]
	v.spec = c.seen.Desired[node]
	v.told = v.spec.HasInstance()
	for _, s := range c.seen.Servers[node] {
		if s.ID == v.instance.ID {
			v.own = &s
		} else if !c.known[s.ID] {
			v.strange = append(v.strange, s)
		}
	}
	reconfigure.OldestFirst(v.strange)
	return v
}

// Abandoned reports whether a cloud node is DOWN with a reason of this tool and no request will hand it back: a
// worker died, or the control host did not accept a request of Slurm. Slurm never changes a node that is DOWN and
// powered down (22.05, run).
func Abandoned(s reconfigure.NodeState) bool {
	return s.Cloud() && s.Down() && s.Ours() && !s.Busy && !s.PoweringUp() && !s.PoweringDown()
}

// resumeTimeoutReached is Slurm's reason for a node that did not register in time (slurmctld, power_save.c).
const resumeTimeoutReached = "ResumeTimeout reached"

// IsForgotten reports whether Slurm has a cloud node as powered down, but gives it to no job. A restart of slurmctld
// makes no node available that does not respond (read_config.c); a node that did not come up in time stays DOWN, as
// after a restart of slurmctld in mid-boot, if its ResumeFailProgram was lost; and a drain of this tool stays if it was
// set after the power down began. A power down ends each of these states (power_save.c).
func IsForgotten(s reconfigure.NodeState) bool {
	if !s.Cloud() || !s.PoweredDown() || s.Busy || s.PoweringUp() || s.PoweringDown() ||
		s.HasAny(reconfigure.NodeMaintenance|reconfigure.NodeFail) || s.ForeignDrain() {
		return false
	}
	if s.Down() {
		return strings.HasPrefix(s.Reason, resumeTimeoutReached)
	}
	return s.Has(reconfigure.NodeNotResponding) || s.Drained() && !s.Retires() && !s.Unfit()
}

// IsLingering reports whether Slurm powers a cloud node down. It does so for SuspendTimeout, and does not say whether
// that has passed.
func IsLingering(s reconfigure.NodeState) bool {
	return s.Cloud() && s.Has(reconfigure.NodePoweringDown) && !s.Busy && !s.PoweringUp() &&
		!s.HasAny(reconfigure.NodeMaintenance|reconfigure.NodeDrain|reconfigure.NodeFail|reconfigure.NodeDown)
}

// out reports whether no job is on the node and none can start, so that a fix or a removal cannot cost a job.
func (v view) out() bool {
	return !v.state.Up() && !v.state.PoweringUp() && !v.state.Running() && !v.state.Rebooting() &&
		(v.state.GivenUp() || v.state.Down())
}

// used reports whether Slurm uses the node: a job runs there, or may start.
func (v view) used() bool { return v.state.Ready() || v.state.Running() }
