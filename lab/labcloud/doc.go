// Package labcloud is an OpenStack-compatible cloud for the lab: Keystone v3,
// Nova 2.1 up to microversion 2.93, Neutron v2.0 and Glance v2, as far as
// Terraform's OpenStack provider and gophercloud use them.
//
// It answers as the real services do: status codes, bodies, headers, states
// that take time, and the texts of refusals are those that were recorded from
// a real OpenStack (Zed). It differs from them on purpose in one point: what
// it does not know (a call, a filter, a field) it refuses loudly instead of
// ignoring it, so that no test passes because the lab looked away.
//
// Behind the servers stands a [Hypervisor]. The lab's own makes each server a
// Linux machine in namespaces; [Null] makes them nothing at all, for scale.
//
// Faults come to order, see [Fault]: a server that goes to ERROR, a refused or
// lost call, a machine that never boots. Beside the services' paths the cloud
// has three of its own, without authentication: /lab/faults, /lab/calls and
// /lab/servers. It is meant for loopback and the lab's own bridge only.
//
// All state is in memory, behind one mutex. Each service has a file or two;
// requests pass through [Cloud.Handler] as: count, fault, authenticate,
// negotiate the microversion, handle, write.
package labcloud
