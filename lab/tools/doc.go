// Package tools installs the programs that the lab and the tests need on a new Debian 12 with root and Go: Debian's
// packages, without starting their services; Terraform and its OpenStack provider, built from their Go modules at
// pinned versions; both without what takes time in tests that do not depend on it (see Paths.Quick); and the base image
// of the lab's machines.
//
// Only InstallTofu builds OpenTofu, and only InstallOpenStack installs Debian's OpenStack, since these take minutes.
//
// Everything except Debian's packages is installed in the folder .tools of the checkout.
package tools
