// Package image makes and keeps the disks that lab machines start from.
//
// An image is a stack of layers, read-only folders that overlayfs lays over one
// another: at the bottom the base, a small Debian with sshd, munge and Slurm
// that [BuildBase] bootstraps once; above it thin layers, made of a few files
// ([Store.Add]) or of what a machine wrote to its disk ([Store.Snapshot]).
//
// The base behaves as a cloud's image does: no host keys, a login user that may
// use sudo, nothing enabled but sshd. Its PID 1 is sysvinit, which runs in a
// PID namespace as it does on hardware, so that reboot(8) and shutdown(8) work
// inside a machine.
package image
