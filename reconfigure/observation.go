package reconfigure

import (
	"slices"
	"strings"
	"time"
)

// Spec is what an instance is made of, as ids: a name may mean another thing tomorrow, an id cannot. Together with the node's name it is an entry of the
// map that Terraform gets, hence the JSON names.
//
// An entry without an image is a node whose port is kept, with its address, and that has no instance: see HasInstance.
type Spec struct {
	Group     string `json:"group"`
	ImageID   string `json:"image_id,omitempty"`
	FlavorID  string `json:"flavor_id,omitempty"`
	NetworkID string `json:"network_id"`
	// Shard is the Terraform workspace whose state has the node's resources; empty is the default one. It never changes while the map has an entry of the node.
	Shard string `json:"shard,omitempty"`
}

// HasInstance reports whether the node is to have an instance, and not a kept port only. It is false for the zero Spec, which stands for a node without an entry.
func (s Spec) HasInstance() bool { return s.ImageID != "" }

// PortOnly is the entry of a node whose instance goes and whose port is kept. It is false where there is no port that could be kept.
func (s Spec) PortOnly() (Spec, bool) {
	s.ImageID, s.FlavorID = "", ""
	return s, s.NetworkID != ""
}

// Instance is what stands behind a node, as Terraform's state has it.
type Instance struct {
	Node    string
	ID      string // Nova's
	Address string // fixed IPv4 address
	Tainted bool   // it was not made to the end: it can only be replaced or removed
	Made    Spec   // what it is made of; what the state does not say is empty
}

// NodeState is what Slurm says of a node (sinfo(1), NODE STATE CODES).
type NodeState struct {
	Node   string
	States []string // base state and flags, upper case: IDLE, MIXED, ALLOCATED, DOWN, CLOUD, POWERING_UP, …
	Reason string
	// Address is where slurmctld reaches the node: an IP address, or a name, the node's own for instance (slurm.conf(5), NodeAddr).
	Address string
	Boot    time.Time // when slurmd says that the node was booted; zero: never
	Busy    bool      // a job is on it
	// Returns tells that the node is to be rebooted, and that Slurm is to use it again afterwards (scontrol(1), reboot, nextstate).
	Returns bool
}

// Is tells whether Slurm gives the node any of these states.
func (s NodeState) Is(states ...string) bool {
	return slices.ContainsFunc(states, func(x string) bool { return slices.Contains(s.States, x) })
}

// ReasonPrefix marks the reasons that are ours. A node whose reason does not begin with it was drained or set down by somebody else.
const ReasonPrefix = "reconfigure:"

// Ours tells whether the node's drain, or its being down, is of our making.
func (s NodeState) Ours() bool { return strings.HasPrefix(s.Reason, ReasonPrefix) }

// Rebooting tells whether Slurm has given the node to its RebootProgram, and waits for a new boot.
func (s NodeState) Rebooting() bool { return s.Is("REBOOT_ISSUED") }

// Ready tells whether slurmd has registered and jobs may run, or do.
func (s NodeState) Ready() bool {
	return s.Is("IDLE", "MIXED", "ALLOCATED", "COMPLETING") &&
		!s.Is("DOWN", "POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWER_UP", "NOT_RESPONDING", "REBOOT_ISSUED")
}

// Usable tells whether Slurm may start a job on the node at any moment.
func (s NodeState) Usable() bool { return s.Ready() && !s.Is("DRAIN") }

// Running tells whether a job is at work on the node. A job that only waits for the node to power up has nothing to lose there yet.
func (s NodeState) Running() bool {
	return s.Busy && !s.Is("POWERING_UP", "POWER_UP", "POWERED_DOWN", "POWERING_DOWN")
}

// PoweringUp tells whether Slurm waits for the node to come up.
func (s NodeState) PoweringUp() bool { return s.Is("POWERING_UP", "POWER_UP") }

// Given tells whether Slurm has given the node to a job, be it at work there or waiting for the node.
func (s NodeState) Given() bool { return s.Busy || s.PoweringUp() }

// Observation is what was found before a plan is made.
type Observation struct {
	Time      time.Time
	Desired   map[string]Spec      // the nodes that Terraform was last told of, each as far as that was carried out
	Instances map[string]Instance  // by node
	States    map[string]NodeState // by node, as Slurm says
	Slurm     bool                 // Slurm answered; else States is empty, and nobody can tell where jobs run
	Silence   string               // why it did not
	Sources   map[Source]Resolved  // what names mean now, for those that the plan needs
	Health    map[string]Health    // of the node groups that do not fare well, by name
}

// Shard is the shard that has a node's resources: that of its entry, or of what a removal that was cut short has left. It is DefaultShard for a node that has
// neither.
func (o Observation) Shard(node string) string {
	if spec, ok := o.Desired[node]; ok {
		return spec.Shard
	}
	return o.Instances[node].Made.Shard
}

// Resolved is a Source turned into ids, or why it could not be.
type Resolved struct {
	ImageID, FlavorID, NetworkID string
	Err                          string
	Class                        Class // of what Err tells
}
