package reconfigure

import (
	"cmp"
	"slices"
	"time"
)

// Server is an instance of the cluster in the cloud.
type Server struct {
	ID       string
	Node     string // its name
	Status   ServerStatus
	Fault    Fault  // the fault of a server in ERROR; zero if the cloud's list has none
	Address  string // first fixed IPv4 address; empty if it has none
	PortID   string // empty if the cloud's list does not have it
	ImageID  string // empty if it boots from a volume
	FlavorID string // empty if the cloud's list does not have it
	Zone     string // its availability zone; empty: none, or unknown
	Group    string // from its metadata
	Metadata Texts  // the metadata that is not reconfigure's own
	Adopted  bool   // somebody else has made it
	Aside    bool   // it has failed, and is kept, stopped and without a port, while another one is made for its node
	Created  time.Time
	// Host is the host on which it runs, by its name or by an id that identifies it. Empty if it has none.
	Host string
}

// OldestFirst sorts servers by the time of their creation.
func OldestFirst(servers []Server) {
	slices.SortFunc(servers, func(a, b Server) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// Port is a port of the cluster in the cloud.
type Port struct {
	ID      string
	Node    string // its name
	Server  string // id of the server that uses it; empty if none does
	Network string // id of its network; empty if the cloud's list does not have it
	// SecurityGroups are the ids of its security groups; empty if the cloud has none.
	SecurityGroups List
	Created        time.Time
}

// Candidate is a server with the name of a node, which may become its instance.
type Candidate struct {
	Server
	Cluster string // the id, or of an early version the name, of the cluster that it belongs to; empty: none
	Ports   []Port
}

// SharedResource is a resource of the root module that belongs to no node, as Terraform would make it.
type SharedResource struct {
	Address string // in Terraform's state
	Type    string
	// Attributes are those that are known before it is made.
	Attributes map[string]any
}

// Identity identifies the instances and ports of a cluster. The cluster's name does not suffice: a project may have
// two clusters with the same name.
type Identity struct {
	ID string // random, set once; empty: there is none yet
	// Marked reports whether the instances and ports that are older than the id have it now. Until then the cluster's
	// name counts for instances without an id.
	Marked bool
}

// ServerStatus is the status of a server. The adapters translate their cloud's words. Other words are shown
// unchanged, and no decision depends on them.
type ServerStatus string

// The statuses of servers.
const (
	ServerBuilding  ServerStatus = "BUILD"
	ServerActive    ServerStatus = "ACTIVE" // it runs
	ServerFailed    ServerStatus = "ERROR"  // it failed permanently; its Fault has the reason
	ServerStopped   ServerStatus = "SHUTOFF"
	ServerPaused    ServerStatus = "PAUSED"
	ServerSuspended ServerStatus = "SUSPENDED"
	ServerShelved   ServerStatus = "SHELVED"
	ServerOffloaded ServerStatus = "SHELVED_OFFLOADED" // shelved, and on no host
)

// Fault is the reason why a server is in ERROR, in the cloud's words, with the class that its adapter found.
type Fault struct {
	Words string
	Class Class
}

// Active reports whether the server is running.
func (s Server) Active() bool { return s.Status == ServerActive }

// Failed reports whether the server is in ERROR.
func (s Server) Failed() bool { return s.Status == ServerFailed }

// Stopped reports whether the server was stopped, by a user or by the cloud.
func (s Server) Stopped() bool {
	switch s.Status {
	case ServerStopped, ServerPaused, ServerSuspended, ServerShelved, ServerOffloaded:
		return true
	}
	return false
}
