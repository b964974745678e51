package reconfigure

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// ControlGroup is the group name under which the control node stands among the declared nodes. No node group may take it.
const ControlGroup = "control"

// Cluster is what group_vars/all.yml declares, checked. It is a value: nothing changes it after config has made it.
type Cluster struct {
	Name           string // marks every instance as ours
	Cloud          string // entry of clouds.yaml
	LoginUser      string // user of the images
	PrivateKeyFile string // absolute path of the key that LoginUser accepts
	Control        Control
	Groups         []NodeGroup
	Partitions     []Partition
	Slurm          Timing
	NFSShares      []string
	Settings       Settings
}

// Source names what an instance is made of, in the cloud's words. The cloud turns it into a Spec.
type Source struct {
	Image, Flavor, Network string
}

// Control is the node that runs slurmctld.
type Control struct {
	Name string
	Source
}

// NodeGroup is a pool of like nodes. The first Min are persistent, the rest up to Max are cloud nodes.
type NodeGroup struct {
	Name   string
	Prefix string
	Width  int // digits of a node's number, zero padded
	Source
	Min, Max int
	// KeepPorts has every node of the group keep its port, and with it its address, while it has no instance.
	KeepPorts bool
}

// Partition is one of Slurm's, over one or several node groups.
type Partition struct {
	Name   string
	Groups []string
	// AllOrNothing has a job that cannot get all of its nodes, for want of room, get none of them.
	AllOrNothing bool
}

// Timing is Slurm's power saving (slurm.conf(5)).
type Timing struct {
	SuspendTime, SuspendTimeout, ResumeTimeout time.Duration
}

// Settings is how the tool itself works.
type Settings struct {
	StateDir    string        // absolute
	Journal     string        // the URL of a PostgreSQL database; empty: SQLite in StateDir
	Keep        time.Duration // of requests in the journal, with their events, after the outcome; 0: for ever
	Gather      time.Duration // how long the worker waits for requests that arrive together
	Worker      WorkerStart
	Reconcile   time.Duration // between two looks of the worker at what differs; 0: it does not look
	Terraform   string        // path of the binary; empty: found or downloaded
	Parallelism int           // the most instances that Terraform works on at a time
	LockTimeout time.Duration
	// Interrupt has a run of Terraform end as soon as the cloud says that its instances are as asked.
	Interrupt   bool
	BootTimeout time.Duration
	Retries     int // how often a node that Slurm waits for is tried once more on a fresh instance
	HostKeys    HostKeyPolicy
	CoolDown    time.Duration // how long Slurm's calls do not ask for more of a group that the cloud had no room for; 0: they do
	Breaker     int           // boot failures in a row of a group, after which Slurm's calls try one node at a time; 0: never
	// NodesPerState is the most nodes of a cluster that has one Terraform state, and about the number of nodes of each state of a larger one; 0: always one state.
	NodesPerState int
}

// WorkerStart says who starts a worker for a request.
type WorkerStart string

// The ways: WorkerSelf has every call start one where none is at work; WorkerSystemd has it ask systemd for the one that is a service of this host.
const (
	WorkerSelf    WorkerStart = "self"
	WorkerSystemd WorkerStart = "systemd"
)

// HostKeyPolicy says how the host key of a new instance becomes known.
type HostKeyPolicy string

// The policies: HostKeysConsole reads the keys from the console log, where cloud-init prints them, so that they come over the cloud's authenticated
// API; HostKeysAcceptNew takes the first key that answers at a new instance's address.
const (
	HostKeysConsole   HostKeyPolicy = "console"
	HostKeysAcceptNew HostKeyPolicy = "accept-new"
)

// Node is the name of the i-th node, counted from 1.
func (g NodeGroup) Node(i int) string { return fmt.Sprintf("%s%0*d", g.Prefix, g.Width, i) }

// Nodes is every node that the group may have.
func (g NodeGroup) Nodes() nodeset.NodeSet { return g.first(g.Max) }

// Persistent is the nodes that are always there.
func (g NodeGroup) Persistent() nodeset.NodeSet { return g.first(g.Min) }

func (g NodeGroup) first(n int) nodeset.NodeSet {
	names := make([]string, n)
	for i := range names {
		names[i] = g.Node(i + 1)
	}
	return nodeset.Of(names...)
}

// Nodes is every compute node that is declared.
func (c Cluster) Nodes() nodeset.NodeSet { return c.union(NodeGroup.Nodes) }

// Persistent is every compute node that is always there.
func (c Cluster) Persistent() nodeset.NodeSet { return c.union(NodeGroup.Persistent) }

func (c Cluster) union(of func(NodeGroup) nodeset.NodeSet) nodeset.NodeSet {
	var all nodeset.NodeSet
	for _, g := range c.Groups {
		all = all.Union(of(g))
	}
	return all
}

// WithMin is the cluster with another number of persistent nodes in one of its groups; c itself stays as it is.
func (c Cluster) WithMin(group string, n int) Cluster {
	c.Groups = slices.Clone(c.Groups)
	for i := range c.Groups {
		if c.Groups[i].Name == group {
			c.Groups[i].Min = n
		}
	}
	return c
}

// GroupOf finds the group that a node belongs to.
func (c Cluster) GroupOf(node string) (NodeGroup, bool) {
	for _, g := range c.Groups {
		if _, ok := g.Number(node); ok {
			return g, true
		}
	}
	return NodeGroup{}, false
}

// DefaultShard is the shard of the control node and of what the nodes share: Terraform's default workspace.
const DefaultShard = ""

// Shard is the shard that a node without an entry in the map of nodes gets. A node that has one stays where it is, so nothing but the making of an entry may ask
// this. It is the default shard for a cluster of no more than NodesPerState nodes, and for what is no declared compute node.
func (c Cluster) Shard(node string) string {
	per := c.Settings.NodesPerState
	if per <= 0 || c.size() <= per {
		return DefaultShard
	}
	for _, g := range c.Groups {
		if i, ok := g.Number(node); ok {
			return fmt.Sprintf("%s-%d", g.Name, (i-1)/per)
		}
	}
	return DefaultShard
}

// size is the number of declared compute nodes.
func (c Cluster) size() int {
	n := 0
	for _, g := range c.Groups {
		n += g.Max
	}
	return n
}

// KeepsPort reports whether a node is declared to keep its port while it has no instance.
func (c Cluster) KeepsPort(node string) bool {
	g, ok := c.GroupOf(node)
	return ok && g.KeepPorts
}

// WithoutInstance is what stays of a node's entry in the map of nodes when its instance is removed. It is false where nothing stays.
func (c Cluster) WithoutInstance(node string, was Spec) (Spec, bool) {
	if !c.KeepsPort(node) {
		return Spec{}, false
	}
	return was.PortOnly()
}

// Shards is the shards of a map of nodes, in order, the default one first. The default one is always among them.
func Shards(nodes map[string]Spec) []string {
	found := map[string]bool{DefaultShard: true}
	for _, spec := range nodes {
		found[spec.Shard] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// InShard is the entries of a map of nodes that belong to a shard.
func InShard(nodes map[string]Spec, shard string) map[string]Spec {
	part := map[string]Spec{}
	for node, spec := range nodes {
		if spec.Shard == shard {
			part[node] = spec
		}
	}
	return part
}

// Number is a node's place in the group, from 1 to Max; false where the group has no such node.
func (g NodeGroup) Number(node string) (int, bool) {
	digits, ok := strings.CutPrefix(node, g.Prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 1 || i > g.Max || g.Node(i) != node {
		return 0, false
	}
	return i, true
}
