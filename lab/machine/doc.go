// Package machine is the lab's hypervisor: it runs the cloud's servers as sets of Linux namespaces on this host.
//
// A machine has its own mount, UTS, IPC, PID, network and time namespace, an overlay of its image as root file system,
// and its image's init as PID 1: sysvinit or systemd, which has a control group and a cgroup namespace too. Its time
// namespace starts at zero, because Slurm regards a node that booted before its resume as not booted. To Slurm, Ansible
// and SSH it looks like a machine. It boots in half a second and needs a few MiB. It does not isolate attackers: root
// in a machine is root on the host, without some capabilities.
//
// # What remains after a crash
//
// Only files and, with systemd, empty control groups. The lab's switch is a bridge in a network namespace that exists
// as long as a descriptor of the lab's process, and the processes of all machines end with that process
// (PR_SET_PDEATHSIG). The kernel then removes the namespaces with their mounts, and the host's link to the switch.
// Disks and consoles stay in [Config.Dir], control groups below "lab-" + [Config.Name] in each hierarchy; [New] and
// [Cleanup] remove them.
//
// The host's network is not changed: the bridge is not in its namespace, so packet filters and forwarding do not apply.
// Machines reach only each other and the host.
package machine
