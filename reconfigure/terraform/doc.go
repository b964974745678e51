// Package terraform drives the root module that makes a cluster's instances. It has Terraform preview a plan, compares
// the preview with the plan (the fence), applies the saved preview, reports the failures by node, and adopts servers
// into Terraform's state.
//
// The module's input is the map of nodes, node name → reconfigure.Spec, which a Keeper stores for all control hosts.
// Before each apply the driver stores the map, and then writes the shard's part of it to a file in the module's folder,
// so that Terraform's input is never older than its state.
//
// Terraform is run through terraform-exec, and every decision is made from Terraform's JSON: the saved plan, the state,
// and the events of a plan or an apply. The one exception is the owner of a state lock (locked.go), which only
// Terraform's messages have.
package terraform
