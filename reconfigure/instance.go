package reconfigure

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

// Resolved is a Source turned into ids, or why it could not be.
type Resolved struct {
	ImageID, FlavorID, NetworkID string
	Err                          string
	Class                        Class // of what Err tells
}
