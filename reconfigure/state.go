package reconfigure

// State is what Terraform was last told, and what its state has.
type State struct {
	Desired   map[string]Spec     // by node
	Instances map[string]Instance // by node
	Addresses map[string]string   // fixed IPv4 addresses of the kept ports of nodes without an instance, by node
}
