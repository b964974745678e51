// Package openstack runs a real OpenStack for a test: Debian's Keystone, Placement, Glance, Neutron and Nova, with
// MariaDB, RabbitMQ and memcached, without systemd. A cloud starts in about a minute and a half on two idle cores.
//
// Nova has its fake driver: servers become ACTIVE, have ports and addresses, and can be rebuilt, rebooted and deleted,
// but they are not machines. With a [labcloud.Hypervisor] they are: a driver derived from the fake one calls it for
// each change. Neutron binds each port at once, without agents.
//
// All services listen only on 127.0.0.1, on fixed ports, with a password that is in this source. They run in separate
// PID and mount namespaces, and all their files are in a tmpfs that is only visible there. So the kernel ends every
// process and frees every file when the first process of the namespace ends, also after a failure or a kill of the
// test.
//
// [New] needs root, and the packages that tools.InstallOpenStack installs.
package openstack
