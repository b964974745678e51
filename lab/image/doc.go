// Package image makes and stores the disk images of the lab's machines.
//
// An image is a stack of layers, read-only folders for overlayfs. The lowest is the base, a small Debian with sshd,
// munge and Slurm that [Base.Build] makes once. Above it are thin layers, made of a few files ([Store.Add]) or of a
// machine's writes to its disk ([Store.Snapshot]).
//
// The base is like a cloud's image: it has no host keys and a login user that may use sudo, and only sshd is enabled.
// Its PID 1 is sysvinit or, for tests that need it, systemd; both run in a PID namespace as they do on hardware, so
// that reboot(8) and shutdown(8) work inside a machine. There is a base for each init and release of Debian ([Base]).
//
// An archive is a folder of packages that the base lacks ([BuildArchive]). Machines of an image with its files
// ([Archive]) install the packages without a network.
package image
