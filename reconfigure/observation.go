package reconfigure

import "time"

// Spec is what an instance is made of, as ids: a name may mean another thing tomorrow, an id cannot. Together with the node's name it is an entry of the
// map that Terraform gets, hence the JSON names.
type Spec struct {
	Group     string `json:"group"`
	ImageID   string `json:"image_id"`
	FlavorID  string `json:"flavor_id"`
	NetworkID string `json:"network_id"`
}

// Instance is what stands behind a node, as Terraform's state has it.
type Instance struct {
	Node    string
	ID      string // Nova's
	Address string // fixed IPv4 address
	Tainted bool   // it was not made to the end: it can only be replaced or removed
	Made    Spec   // what it is made of; what the state does not say is empty
}

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

// Resolved is a Source turned into ids, or why it could not be.
type Resolved struct {
	ImageID, FlavorID, NetworkID string
	Err                          string
	Class                        Class // of what Err tells
}
