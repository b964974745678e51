// Package cloudtest checks that a cloud answers as OpenStack does: states that servers go through, refusals with their
// words, quota, microversions, lists in pages, console, metadata, tags, ports.
//
// The same checks run on labcloud and on a real OpenStack (package lab/openstack, `make release-check`). So labcloud
// answers as Nova, Neutron, Glance and Keystone of Debian 12 do. [Differences] lists the checks that a cloud does not
// pass, with the reasons. Such a check must fail there, so that an outdated entry is an error.
package cloudtest
