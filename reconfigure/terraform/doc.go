// Package terraform drives the root module that makes a cluster's instances. Terraform previews a plan; the package
// compares the preview with the plan (the fence), applies the saved preview, reports the failures by node, and adopts
// servers into Terraform's state.
//
// The module's input is the map of nodes, node name → reconfigure.Spec, which a Keeper stores for all control hosts.
// Before each apply the driver stores the map and writes the shard's part of it to a file in the module's folder. So
// Terraform's input is never older than its state.
//
// The package runs Terraform through terraform-exec and makes every decision from Terraform's JSON: the saved plan,
// the state, and the events of a plan or an apply. The one exception is the owner of a state lock (locked.go), which
// only Terraform's messages have.
package terraform
