// Package labcloud is an OpenStack-compatible cloud for the lab: Keystone v3,
// Nova 2.1 up to microversion 2.93, Neutron v2.0 and Glance v2, as far as
// Terraform's OpenStack provider and gophercloud use them.
//
// It answers as the real services do: status codes, bodies, headers, states that take time, and error texts are those
// that were recorded from a real OpenStack (Zed). It differs from them on purpose in one point: an unknown call, filter
// or field is an error and is never ignored, so that no test passes by an ignored request.
//
// A [Hypervisor] runs the servers. The lab's own runs each server as a Linux machine in namespaces; [Null] runs
// nothing, for tests of scale.
//
// Faults can be requested, see [Fault]: a server that goes to ERROR, a refused or lost call, a machine that never
// boots. Beside the services' paths the cloud has three of its own, without authentication: /lab/faults, /lab/calls and
// /lab/servers. So it must listen only on loopback and the lab's own bridge.
//
// All state is in memory, guarded by one mutex. Each service has one or two files. [Cloud.Handler] processes a request
// in this order: count, fault, authenticate, negotiate the microversion, handle, write.
package labcloud
