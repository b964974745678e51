package reconfigure

// State is what Terraform was last told, and what its state has.
type State struct {
	Desired   map[string]Spec     // by node
	Instances map[string]Instance // by node
}
