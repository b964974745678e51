package reconfigure

import "strings"

// Spec is the source of an instance, by ids: the meaning of a name may change, that of an id cannot. It is a node's
// entry in the map of nodes, which is Terraform's input, hence the JSON names.
//
// An entry with a Power is a stopped instance. An entry without an image is a kept port, with its address, of a node
// that has no instance: see HasInstance.
type Spec struct {
	Group     string `json:"group"`
	ImageID   string `json:"image_id,omitempty"`
	FlavorID  string `json:"flavor_id,omitempty"`
	NetworkID string `json:"network_id"`
	// SecurityGroups are the ids of those of the node's port, which somebody else has made; empty: it has the cluster's.
	// They stay while the map has an entry of the node with that network.
	SecurityGroups List `json:"security_groups,omitempty"`

	Power Power `json:"power_state,omitempty"`
	Placement
	// Avoid is the id of an instance on whose host the new one should not be made. It is for one run, and not stored.
	Avoid string `json:"avoid,omitempty"`
	// Shard is the Terraform workspace whose state has the node's resources; empty is the default one. It never changes
	// while the map has an entry of the node.
	Shard string `json:"shard,omitempty"`
}

// HasInstance reports whether the node should have an instance, not only a kept port. It is false for the zero Spec,
// a node without an entry.
func (s Spec) HasInstance() bool { return s.ImageID != "" }

// Power is the wanted power state of an instance, in the words of Terraform's provider; empty: it runs.
type Power string

// The power states of stopped instances. A shelved one is a snapshot in the cloud, and uses no host.
const (
	PowerOff Power = "shutoff"
	Shelved  Power = "shelved_offloaded"
)

// Stopped reports whether the node should have an instance that does not run.
func (s Spec) Stopped() bool { return s.HasInstance() && s.Power != "" }

// Running returns the entry of the node while its instance runs.
func (s Spec) Running() Spec {
	s.Power = ""
	return s
}

// Stored returns the entry as the map of nodes has it after the run.
func (s Spec) Stored() Spec {
	s.Avoid = ""
	return s
}

// Status returns the status of an instance that is as the entry says.
func (s Spec) Status() ServerStatus {
	if s.Power == "" {
		return ServerActive
	}
	return ServerStatus(strings.ToUpper(string(s.Power)))
}

// PortOnly returns the entry of a node that loses its instance and keeps its port; false if it has no port to keep.
func (s Spec) PortOnly() (Spec, bool) {
	s.ImageID, s.FlavorID, s.Power, s.Placement, s.Avoid = "", "", "", Placement{}, ""
	return s, s.NetworkID != ""
}

// Instance is a node's instance in Terraform's state.
type Instance struct {
	Node    string
	ID      string // in the cloud
	Address string // fixed IPv4 address
	Tainted bool   // it is unfinished: Terraform replaces or removes it
	Made    Spec   // its source; fields that the state lacks are empty
}

// Resolved is a Source resolved to ids, or the error.
type Resolved struct {
	ImageID, FlavorID, NetworkID string
	Placement
	Err   string // why it cannot be resolved; empty if it is
	Class Class  // of the error
}

// Spec returns the entry of a node of a group, in the default shard.
func (r Resolved) Spec(group string) Spec {
	return Spec{Group: group, ImageID: r.ImageID, FlavorID: r.FlavorID, NetworkID: r.NetworkID, Placement: r.Placement}
}

// State has Terraform's last map of nodes, and the instances in its state.
type State struct {
	Desired   map[string]Spec     // by node
	Instances map[string]Instance // by node
	Ports     map[string]string   // ids of the nodes' ports in Terraform's state, also of kept ones, by node
}
