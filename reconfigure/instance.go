package reconfigure

// Spec is what an instance is made of, as ids: a name may mean another thing tomorrow, an id cannot. Together with the node's name it is an entry of the
// map that Terraform gets, hence the JSON names.
type Spec struct {
	Group     string `json:"group"`
	ImageID   string `json:"image_id"`
	FlavorID  string `json:"flavor_id"`
	NetworkID string `json:"network_id"`
	// Shard is the Terraform workspace that has the node; empty: the default one. It is set once, when the entry is made.
	Shard string `json:"shard,omitempty"`
}

// HasInstance reports whether the node is to have an instance. A node of which only the port is kept is to have none.
func (s Spec) HasInstance() bool { return s.ImageID != "" }

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
