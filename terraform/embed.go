// Package terraform holds the root modules, which are in the binary.
package terraform

import "embed"

// FS has the files that Terraform reads.
//
//go:embed */*.tf libvirt/console.xslt
var FS embed.FS
