// Package reconcile compares what Slurm, Terraform, the cloud and the journal say of the same nodes, and names what
// does not go together. Comparing and deciding is pure: it takes a snapshot, asks no source and changes nothing. What
// may be done about a finding is part of the finding. Reconciler asks the sources and the journal, and does it.
//
// It judges only what is the cluster's: nodes that are declared, that Terraform has or was told of, and servers that
// carry the cluster's metadata. Whatever else Slurm or the cloud has is not even named. Nodes that a request is at
// work on are not judged either: there, things differ because they are about to change.
package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Busy is what requests are at work on.
type Busy struct {
	Nodes nodeset.NodeSet // that a request without an outcome names, or to which something happened during the snapshot
	Whole bool            // such a request is for the whole cluster
}

// Kind is what differs.
type Kind string

// The kinds. Programs can rely on the words.
const (
	Orphan     Kind = "orphan"        // the cloud has an instance of ours that Terraform does not know
	Doubled    Kind = "doubled"       // the same, and it is not the only one of its name
	Lost       Kind = "lost"          // Terraform has an instance that the cloud does not have
	Tainted    Kind = "tainted"       // an instance was not made to the end
	Unfinished Kind = "unfinished"    // Terraform was told of a node that has no instance, or is to have none and has one
	Unadopted  Kind = "unadopted"     // Slurm uses an instance that Terraform's state does not have as finished
	Leaked     Kind = "leaked"        // Slurm does not use the node, but its instance is there
	Undeclared Kind = "undeclared"    // the same of a node that no group declares any more
	PowersUp   Kind = "powers_up"     // Slurm waits for the node, and no request is at work on it
	PowersDown Kind = "powers_down"   // Slurm waits for the node to go, and no request is at work on it
	Missing    Kind = "missing"       // a node that is always to be there has no instance
	Hollow     Kind = "hollow"        // Slurm takes the node for up, but there is no instance
	SetDown    Kind = "set_down"      // we have set the node DOWN in Slurm, and did not hand it back
	GivenUp    Kind = "given_up"      // Slurm has powered down a persistent node
	Stopped    Kind = "stopped"       // the cloud has the instance as shut off, paused, suspended or in ERROR
	Image      Kind = "wrong_image"   // the instance is made of another image than Terraform was told
	Address    Kind = "wrong_address" // the sources have different addresses of the instance
	Outdated   Kind = "outdated"      // the node is not made of what is declared now: a note, since only an update changes that
)

// Note reports whether the kind is no difference between the sources, but only worth knowing.
func (k Kind) Note() bool { return k == Outdated }

// Fix is what may be done about a finding without asking an administrator: it costs no job, whatever Slurm does
// meanwhile.
type Fix string

// The fixes. Most are requests, for which the planner and the guard look again; the last two are what no request means.
const (
	None     Fix = ""
	Suspend  Fix = "suspend"
	Resume   Fix = "resume"
	Enlarge  Fix = "enlarge"
	Delete   Fix = "delete"    // of the server, in the cloud: Terraform cannot remove what it does not know
	HandBack Fix = "hand_back" // of the node, to Slurm's power saving
)

// Mode is the mode of the request that the fix is; false where it is no request.
func (f Fix) Mode() (reconfigure.Mode, bool) {
	mode, ok := map[Fix]reconfigure.Mode{Suspend: reconfigure.Suspend, Resume: reconfigure.Resume, Enlarge: reconfigure.Enlarge}[f]
	return mode, ok
}

// Finding is one thing that differs at one node.
type Finding struct {
	Node   string `json:"node"`
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail"`
	Server string `json:"server,omitempty"` // id of the server that it is about; empty where it is about the node
	Fix    Fix    `json:"fix,omitempty"`
	// Command is what an administrator may do where there is no fix, or nothing. In it, Nodes stands for the node.
	Command string `json:"command,omitempty"`
}

// Nodes stands for the nodes in a Finding's Command, so that several nodes can share one.
const Nodes = "{NODES}"

// Compare is what differs, by node. An empty result means that as far as the sources answer, they agree. An instance
// that Terraform does not know counts from minAge on: a younger one may be in the making.
func Compare(cluster reconfigure.Cluster, seen snapshot.Snapshot, busy Busy, minAge time.Duration) []Finding {
	if busy.Whole {
		return nil
	}
	c := comparison{
		cluster: cluster, persistent: cluster.Persistent(), declared: cluster.Nodes(), seen: seen, minAge: minAge,
		known: knownIDs(seen.Instances), slurm: seen.Answers(snapshot.Slurm), cloud: seen.Answers(snapshot.Cloud),
		terraform: seen.Answers(snapshot.Terraform),
	}
	var all []Finding
	for node := range c.ours().Difference(busy.Nodes).All() {
		all = append(all, c.judge(node)...)
	}
	return all
}

// Confirm is those of the later findings that an earlier comparison had too. Slurm does not tell since when a node is
// in a state, and the sources cannot be asked in one instant: what is seen once may be a moment between two steps.
func Confirm(earlier, later []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(later), func(f Finding) bool {
		return !slices.ContainsFunc(earlier, func(e Finding) bool {
			return e.Node == f.Node && e.Kind == f.Kind && e.Server == f.Server && e.Fix == f.Fix
		})
	})
}

type comparison struct {
	cluster              reconfigure.Cluster
	persistent, declared nodeset.NodeSet
	seen                 snapshot.Snapshot
	slurm                bool // it answers, and so on
	cloud, terraform     bool
	minAge               time.Duration
	known                map[string]bool // ids that Terraform has
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

// ours is the nodes that may be judged.
func (c comparison) ours() nodeset.NodeSet {
	names := []string{c.cluster.Control.Name}
	names = slices.AppendSeq(names, maps.Keys(c.seen.Desired))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Instances))
	names = slices.AppendSeq(names, maps.Keys(c.seen.Servers))
	return c.declared.Union(nodeset.Of(names...))
}

func (c comparison) judge(node string) []Finding {
	v := c.view(node)
	all := c.strangers(v)
	if f, ok := c.existence(v); ok {
		all = append(all, c.careful(v, f, all))
	}
	all = append(all, c.likeness(v)...)
	for i := range all {
		all[i].Node = node
		if node == c.cluster.Control.Name && all[i].Command == updating {
			all[i].Command = "" // no mode updates it
		}
		if !c.fixable() {
			all[i].Fix = None
		}
	}
	return all
}

// fixable reports whether anything may be fixed at all. With one of the sources unreachable, what the others say may
// only look wrong; and without a control node no nodes can be made.
func (c comparison) fixable() bool {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	return c.slurm && c.cloud && c.terraform && deployed
}

// careful takes back a fix that would make a second instance of the node's name.
func (c comparison) careful(v view, f Finding, strangers []Finding) Finding {
	makes := f.Fix == Resume || f.Fix == Enlarge
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
		f.Detail += "; the cloud has an instance of its name that Terraform does not know"
	}
	return f
}

// view is what there is to know of one node.
type view struct {
	node     string
	state    reconfigure.NodeState
	known    bool // Slurm knows the node
	instance reconfigure.Instance
	made     bool // Terraform's state has the instance, or a part of it
	spec     reconfigure.Spec
	told     bool                 // Terraform's map has the node
	own      *reconfigure.Server  // the instance, as the cloud has it
	strange  []reconfigure.Server // other servers of ours with its name
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
	slices.SortFunc(v.strange, func(a, b reconfigure.Server) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return v
}

// Abandoned reports whether a cloud node is DOWN by a reason of ours, and nobody is about to take it back: a worker died,
// or the control host did not take a request of Slurm's. Slurm leaves a node DOWN that is DOWN and powered down (22.05, run).
func Abandoned(s reconfigure.NodeState) bool {
	return s.Cloud() && s.Down() && s.Ours() && !s.Busy && !s.PoweringUp() && !s.PoweringDown()
}

// out reports whether no job is on the node and none can start: neither fixing nor removing its instance costs a job.
func (v view) out() bool {
	return !v.state.Up() && !v.state.PoweringUp() && !v.state.Running() && !v.state.Rebooting() &&
		(v.state.GivenUp() || v.state.Down())
}

// used reports whether Slurm uses the node: a job runs there, or may start.
func (v view) used() bool { return v.state.Ready() || v.state.Running() }
