package reconfigure

import "time"

// Server is an instance of the cluster as the cloud has it.
type Server struct {
	ID       string
	Node     string // its name
	Status   string // Nova's server status: ACTIVE, BUILD, ERROR, …
	Fault    string // what went wrong, where the status is ERROR and the cloud's list says it
	Address  string // first fixed IPv4 address; empty while there is none
	PortID   string // empty where the list does not say it
	ImageID  string // empty where it boots from a volume
	FlavorID string // empty where the list does not say it
	Group    string // of its metadata
	Created  time.Time
}

// Active reports whether the cloud has the server as running.
func (s Server) Active() bool { return s.Status == "ACTIVE" }

// Stopped reports whether the cloud has the server as one that was stopped, by its owner or by the cloud.
func (s Server) Stopped() bool {
	switch s.Status {
	case "SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED":
		return true
	}
	return false
}

// ServerActive is the status of a server that the hypervisor has started.
const ServerActive = "ACTIVE"
