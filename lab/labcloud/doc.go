// Package labcloud is an OpenStack-compatible cloud for the lab: Keystone v3,
// Nova 2.1 up to microversion 2.93, Neutron v2.0 and Glance v2, as far as
// Terraform's OpenStack provider and gophercloud use them.
//
// It answers as the real services do: its status codes, bodies, headers, transient states and error texts were recorded
// from a real OpenStack (Zed). It differs on purpose in one point: it never ignores an unknown call, filter or field
// but returns an error, so that no test passes because a request was ignored.
//
// A [Hypervisor] runs the servers. The lab's hypervisor runs each server as a Linux machine in namespaces; [Null] runs
// nothing, for tests of scale.
//
// Faults can be requested, see [Fault]: for example, a server that goes to ERROR, a rejected or lost call, or a machine
// that never boots. In addition to the services' paths, the cloud has three paths without authentication: /lab/faults,
// /lab/calls and /lab/servers. So it must listen only on loopback and the lab's own bridge.
//
// All state is in memory, guarded by one mutex. Each service has one or two files. [Cloud.Handler] processes a request
// in this order: count, fault, authenticate, negotiate the microversion, handle, write.
package labcloud
