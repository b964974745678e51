// Package terraform drives the root module that makes a cluster's instances: it previews a plan of ours, holds the preview against what was asked for (the
// fence), applies just what was previewed, and tells the verdicts node by node.
//
// The module's input is one map, node name → reconfigure.Spec, which a Keeper keeps for all control hosts. The driver has it kept before it
// applies, and then written to nodes.auto.tfvars.json beside the module, so that Terraform's own view of the declaration is never behind what may exist.
//
// Terraform is run through terraform-exec, and every decision is made from Terraform's JSON: the saved plan, the state, and the event stream of an apply.
// The one exception is who holds a state lock (locked.go), which Terraform tells in prose only.
package terraform
