// Package cloudtest checks that a cloud answers as OpenStack does: states that servers go through, refusals with their
// words, quota, microversions, lists in pages, console, metadata, tags, ports.
//
// The same checks run on labcloud and on a real OpenStack (package lab/openstack, `make release-check`). So what
// labcloud answers is what Nova, Neutron, Glance and Keystone of Debian 12 answer. Where a cloud cannot do what a check
// asks, [Differences] says so, with the reason. Such a check must fail there: an entry that is not true any more is an
// error.
package cloudtest
