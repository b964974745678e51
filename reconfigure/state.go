package reconfigure

// State is the map of nodes that Terraform got last, and the instances in its state.
type State struct {
	Desired   map[string]Spec     // by node
	Instances map[string]Instance // by node
	Ports     map[string]string   // ids of the nodes' ports in Terraform's state, also of kept ones, by node
}
