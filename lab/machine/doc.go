// Package machine is the lab's hypervisor: it brings the cloud's servers to life
// as sets of Linux namespaces on this host.
//
// A machine has its own mount, UTS, IPC, PID, network and time namespace, an
// overlay of its image as root file system, and sysvinit as PID 1. Its time
// namespace starts at zero, because Slurm takes a node that has been up for
// longer than its request for one that never booted. It is a machine to Slurm,
// Ansible and SSH, in half a second and some MiB; it is no wall against an
// attacker: root in a machine is root on the host, short of a few capabilities.
//
// # What a dead lab leaves behind
//
// Nothing but files. The lab's switch is a bridge in a network namespace that
// only a descriptor of the lab's process holds, and every machine's processes
// die with that process (PR_SET_PDEATHSIG). The kernel then takes away the
// namespaces, with them the mounts, and with the switch the host's link to it.
// Only disks and consoles stay in [Config.Dir]; [New] and [Cleanup] remove them.
//
// Nothing of the host's own network is touched: the bridge is not in its
// namespace, so neither its packet filter nor its forwarding matters, and
// machines reach each other and the host, but nothing beyond.
package machine
