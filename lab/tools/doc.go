// Package tools installs everything that the lab and the tests need on a fresh
// Debian 12 with root and Go: Debian's packages, without letting them start a
// service; Terraform and its OpenStack provider, built from their Go modules at
// pinned versions; the same provider without its fixed waits, for tests that do
// not need them (see Paths.Quick); and the base image of the lab's machines.
//
// All but Debian's packages goes into the folder .tools of the checkout.
package tools
