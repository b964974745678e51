// Package reconcile compares what Slurm, Terraform, the cloud and the journal say of the same nodes, and names what does not go together. It is pure: it takes
// what was seen and asks nobody, and it changes nothing. What may be done about a finding is part of the finding; doing it is the caller's.
//
// It judges only what is the cluster's: nodes that are declared, that Terraform has or was told of, and servers that carry the cluster's metadata. Whatever else
// Slurm or the cloud has is not even named. Nodes that a request is at work on are not judged either: there, things differ because they are about to change.
package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Server is an instance that carries the cluster's metadata, as the cloud has it.
type Server struct {
	ID      string
	Address string // first fixed IPv4 address; empty while there is none
	ImageID string // empty where it boots from a volume
	Created time.Time
}

// Observation is what was seen. Desired, Instances and Slurm's states are meant as for a plan; where one of the parties was silent, nothing is concluded from
// what it would have said.
type Observation struct {
	reconfigure.Observation
	Terraform bool                // Desired and Instances are known
	Cloud     bool                // Servers and Sources are known
	Servers   map[string][]Server // the cluster's own, by name
	AtWork    nodeset.NodeSet     // nodes that a request without an outcome names
	Whole     bool                // such a request is for the whole cluster
	// MinAge is the age from which on an instance that Terraform does not know is nobody's: a younger one may be in the making.
	MinAge time.Duration
}

// Kind is what differs.
type Kind string

// The kinds. Whoever reads them by a program can rely on the words.
const (
	Orphan     Kind = "orphan"        // the cloud has an instance of ours that Terraform does not know
	Doubled    Kind = "doubled"       // the same, and it is not the only one of its name
	Lost       Kind = "lost"          // Terraform has an instance that the cloud has not
	Tainted    Kind = "tainted"       // an instance was not made to the end
	Unfinished Kind = "unfinished"    // Terraform was told of a node that has no instance, or is to have none and has one still
	Leaked     Kind = "leaked"        // Slurm does not use the node, but its instance is there
	Undeclared Kind = "undeclared"    // the same of a node that no group declares any more
	PowersUp   Kind = "powers_up"     // Slurm waits for the node, and nobody is at work on it
	PowersDown Kind = "powers_down"   // Slurm waits for the node to go, and nobody is at work on it
	Missing    Kind = "missing"       // a node that is always to be there has no instance
	Hollow     Kind = "hollow"        // Slurm takes the node for up, but there is no instance
	SetDown    Kind = "set_down"      // we have set the node DOWN in Slurm, and did not come to hand it back
	GivenUp    Kind = "given_up"      // Slurm has powered down a persistent node
	Image      Kind = "wrong_image"   // the instance is made of another image than Terraform was told
	Address    Kind = "wrong_address" // the parties have different addresses of the instance
	Outdated   Kind = "outdated"      // the node is not made of what is declared now: a note, since only an update changes that
)

// Note tells whether the kind is no difference between the parties, but only worth knowing.
func (k Kind) Note() bool { return k == Outdated }

// Fix is what may be done about a finding without asking anybody: it costs no job, whatever Slurm does meanwhile.
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

// Mode is the request that the fix is; false where it is none.
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

// Compare is what differs, by node. An empty result means that as far as the parties answer, they agree.
func Compare(cluster reconfigure.Cluster, seen Observation) []Finding {
	if seen.Whole {
		return nil
	}
	c := comparison{cluster: cluster, persistent: cluster.Persistent(), declared: cluster.Nodes(), seen: seen, known: knownIDs(seen.Instances)}
	var all []Finding
	for node := range c.ours().Difference(seen.AtWork).All() {
		all = append(all, c.judge(node)...)
	}
	return all
}

// Confirm is those of the later findings that an earlier look had too. Slurm does not tell since when a node is in a state, and the parties cannot be asked in
// one instant: what is seen once may be a moment between two steps.
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
	seen                 Observation
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
		if !c.mendable() {
			all[i].Fix = None
		}
	}
	return all
}

// mendable tells whether anything may be mended at all. With one of the parties silent, what the rest say may look wrong only; and without a control node nodes
// cannot be made.
func (c comparison) mendable() bool {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	return c.seen.Slurm && c.seen.Cloud && c.seen.Terraform && deployed
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
	told     bool     // Terraform's map has the node with an instance
	own      *Server  // the instance, as the cloud has it
	strange  []Server // other servers of ours with its name
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
	slices.SortFunc(v.strange, func(a, b Server) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return v
}

// Abandoned tells that a cloud node is DOWN by our own word, which was to be taken back. It is not where the control host has refused to take down what Slurm asked
// for: hand_over.sh says so, and the node waits for somebody to look.
func Abandoned(s reconfigure.NodeState) bool {
	refused := strings.HasPrefix(s.Reason, reconfigure.ReasonPrefix+" control host ")
	return s.Cloud() && s.Down() && s.Ours() && !refused && !s.Busy && !s.PoweringUp() && !s.PoweringDown() && !s.PoweredDown()
}

// out tells that no job is on the node and none can start: neither fixing nor removing its instance costs anybody anything.
func (v view) out() bool {
	return !v.state.Up() && !v.state.PoweringUp() && !v.state.Running() && !v.state.Rebooting() && (v.state.GivenUp() || v.state.Down())
}
