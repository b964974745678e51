package reconfigure

import "time"

// Server is an instance of the cluster as the cloud has it. What the cloud does not say is empty.
type Server struct {
	ID       string
	Node     string
	Status   string // Nova's, upper case: ACTIVE, BUILD, ERROR, …
	Fault    string // why it is in ERROR
	Address  string // fixed IPv4 address in the cluster's network
	PortID   string // Neutron's, of that address
	ImageID  string
	FlavorID string
	Created  time.Time
	Group    string // the node group, as its metadata has it
}

// ServerActive is the status of a server that the hypervisor has started.
const ServerActive = "ACTIVE"
