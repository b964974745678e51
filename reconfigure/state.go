package reconfigure

// State is what Terraform knows of the nodes: what it was told, and what it made of that.
type State struct {
	Desired   map[string]Spec     // the map of nodes that Terraform was last told of
	Instances map[string]Instance // by node, as Terraform's state has them
}
