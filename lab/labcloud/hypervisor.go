package labcloud

import (
	"context"
	"net/netip"
	"time"
)

// Machine has all data that a hypervisor needs to run one server of the cloud. Each call that needs a Machine gets a
// complete copy; a hypervisor MUST NOT write to its slices and maps.
type Machine struct {
	// ID is the server's UUID. It names the machine in every later call and is
	// never used again after Destroy.
	ID string
	// Name is the server's name in the cloud, and the machine's own host name. Two machines may have the same name.
	Name string
	// Addresses are the machine's network interfaces, in the server's order; there may be none.
	Addresses []Address
	// ImageID is the image from which a new disk is made.
	ImageID string
	// AuthorizedKeys are public keys for the image's login user, as lines of authorized_keys(5), one entry per key.
	AuthorizedKeys []string
	// UserData is the server's user data, already decoded from Base64; nil if
	// there is none.
	UserData []byte
	// Metadata is the server's metadata, as the instance sees it.
	Metadata map[string]string
	// Flags are the faults that act inside the machine: see the Flag
	// constants. A hypervisor MUST ignore flags that it does not know.
	Flags map[string]bool
	// BootDelay is an additional delay between switching the machine on and the start of its services.
	BootDelay time.Duration
}

// Address is one network interface of a machine.
type Address struct {
	// MAC is the interface's hardware address, written with colons.
	MAC string
	// Prefix is the interface's address together with the subnet's length.
	Prefix netip.Prefix
	// Gateway is the subnet's router; the zero Addr if the subnet has none.
	Gateway netip.Addr
}

// The faults that act inside a machine, as keys of Machine.Flags.
const (
	// FlagNoSSHD boots a machine whose SSH server never starts.
	FlagNoSSHD = "no-sshd"
	// FlagNoSlurmd boots a machine on which slurmd does not start.
	FlagNoSlurmd = "no-slurmd"
	// FlagNoMunged boots a machine on which munged does not start.
	FlagNoMunged = "no-munged"
	// FlagNeverBoots makes a machine that is ACTIVE in the cloud but never answers.
	FlagNeverBoots = "never-boots"
	// FlagBlocked boots a machine that the gateway's host cannot reach, as if a security group had no rule for it:
	// connections are dropped, not refused. The machine and other machines reach each other.
	FlagBlocked = "blocked"
	// FlagFullDisk boots a machine whose file system for Slurm's configuration is full.
	FlagFullDisk = "full-disk"
	// FlagTruncatedConsole boots a machine of whose console the cloud keeps only the end, from the middle of the
	// host keys on.
	FlagTruncatedConsole = "truncated-console"
	// FlagSlowBoot is set together with a BootDelay.
	FlagSlowBoot = "slow-boot"
)

// Hypervisor runs the servers of the cloud. The cloud decides the state of a server, and the hypervisor carries the
// change out.
//
// Every method MUST be safe for concurrent use. The cloud makes only one call at a time that changes the same machine.
// Calls for different machines, and Console, run in parallel. A method that takes a context MUST return soon after the
// context has ended, and MUST leave the machine in a state from which Destroy cleans up everything. A method returns
// when a real compute service would regard its work as done: Boot may return when the machine is switched on, before
// its services answer.
type Hypervisor interface {
	// Boot switches the machine on. It MUST make a fresh disk from m.ImageID if the machine has none, and otherwise
	// MUST keep the disk. Booting a machine that runs MUST be a success that changes nothing. An unknown image is
	// an error.
	Boot(ctx context.Context, m Machine) error

	// Rebuild stops the machine if it runs, deletes its disk and boots it from m.ImageID. Nothing MUST remain of
	// the old disk. It MUST succeed for a machine that is stopped or has no disk.
	Rebuild(ctx context.Context, m Machine) error

	// Reboot restarts the machine with its disk. A soft reboot MUST give the machine's services a chance to stop
	// first, a hard one MUST NOT. A stopped machine starts as in its last Boot or Rebuild. A machine that was never
	// booted is an error.
	Reboot(ctx context.Context, id string, hard bool) error

	// Stop switches the machine off and keeps its disk. For an absent or stopped machine, it MUST succeed.
	Stop(ctx context.Context, id string) error

	// Destroy switches the machine off and removes everything that belongs to it: processes, interfaces, mounts,
	// files. For an absent machine, it MUST succeed. It MAY be called again after a failure.
	Destroy(ctx context.Context, id string) error

	// Console returns the last lines of the machine's console since its last boot, or all lines if lines is zero or
	// less. A machine without a console has an empty one.
	Console(id string, lines int) (string, error)

	// Snapshot copies the machine's disk to an image that Boot and Rebuild accept as imageID. The machine MAY run
	// during the call; its later writes MUST NOT change the image.
	Snapshot(ctx context.Context, id, imageID string) error
}
