package operation

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// Watch, Provisioner and Quota are what runs of Terraform use.
type (
	Watch       = provision.Watch
	Provisioner = provision.Terraform
	Quota       = provision.Quota
)

// Cloud is the cloud's API, in addition to Terraform.
type Cloud interface {
	// Servers returns the instances of these nodes in any status, by node, the oldest first; without nodes it
	// returns those of the whole cluster. The answer may have instances of other nodes too. A missing instance may
	// still exist.
	Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error)
	// Server returns an instance by its id, in any status; false if the cloud has none with that id. Host may be empty.
	Server(ctx context.Context, id string) (reconfigure.Server, bool, error)
	// Fault returns the cloud's message about a server in ERROR; empty if there is none.
	Fault(ctx context.Context, id string) (reconfigure.Fault, error)
	// Reboot returns when the instance has been started again.
	Reboot(ctx context.Context, id string) error
	// Console returns the end of an instance's console log: at most that many lines, or all for zero. It may be empty, and
	// need not be text.
	Console(ctx context.Context, id string, lines int) (string, error)
	// RemoveServer returns when the instance is removed; an absent instance is success. It MUST NOT remove an instance of
	// another cluster, with another name, or created after the time before.
	RemoveServer(ctx context.Context, id, name string, before time.Time) error
}

// Keeper is the part of a Cloud that can keep an instance that failed while another one is made for its node.
type Keeper interface {
	// SetAside returns when the instance is stopped, has no port, and is marked: Servers returns it with Aside. The port
	// stays. It may be repeated.
	SetAside(ctx context.Context, id string) error
}

// ShelvedImages is the part of a Cloud that saves the disk of an instance as an image when it is shelved. If the
// instance is deleted meanwhile, the image may stay.
type ShelvedImages interface {
	// RemoveShelvedImage removes that image of an instance that is gone, and returns its name; empty: there is none.
	RemoveShelvedImage(ctx context.Context, i reconfigure.Instance) (name string, err error)
}

// Images makes images of instances. The name and the request identify an image.
type Images interface {
	// Image returns the image of a request, in any status; false if none was begun. An image with that name from
	// another cluster or request is an error.
	Image(ctx context.Context, name string, request reconfigure.RequestID) (reconfigure.Image, bool, error)
	// CreateImage begins the image of an instance's disk. If it was begun before and the answer was lost, it returns that
	// image and begins no second one.
	CreateImage(
		ctx context.Context, i reconfigure.Instance, name string, request reconfigure.RequestID,
	) (reconfigure.Image, error)
	// AwaitImage returns when instances can be made from the image and its source may be changed again. It fails at
	// once when the image cannot become active.
	AwaitImage(ctx context.Context, image reconfigure.Image, of reconfigure.Instance) (reconfigure.Image, error)
}

// Cleaner prepares a node for an image.
type Cleaner interface {
	// Clean stops slurmd on the instance and removes from its disk the data that belongs only to this node or
	// cluster: keys, Slurm's configuration, identities, logs. It MUST be idempotent.
	Clean(ctx context.Context, c reconfigure.Cluster, i reconfigure.Instance) error
}

// Waiter waits for SSH.
type Waiter interface {
	// Wait returns when the instance has answered by SSH with a host key that was learned of its disk, or that it
	// learns now. No key was learned of a new disk. If ctx ends first, the error has the result of the
	// last attempt.
	Wait(ctx context.Context, i reconfigure.Instance, newDisk bool) error
	// Known reports whether a host key was learned of the instance's disk. After a reboot, it may be impossible to
	// learn it.
	Known(ctx context.Context, i reconfigure.Instance) (bool, error)
}

// Configurer runs the playbooks. It MUST be idempotent, and has one user at a time.
type Configurer interface {
	// Configure configures the instances of the extent. It calls done for each changed node as soon as its own
	// result is known, and with what was seen of it; the failures have the same results. A fault on an unchanged
	// node is no failure; if it prevents the configuration of a changed node, that node's failure is
	// reconfigure.ClassAnsible. An error means that there are no results by node except those of done. Both may be
	// retried.
	Configure(
		ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
		watch Watch, done func(node string, seen reconfigure.Configured, err error),
	) (reconfigure.Failures, error)
	// Sums returns a checksum for each of these nodes of all that Configure depends on for the node, and of its
	// instance's identity. While it is the same, another Configure changes nothing on the node. If several control
	// hosts share a journal, this holds only until a Configure changes the control node.
	Sums(
		c reconfigure.Cluster, instances map[string]reconfigure.Instance, nodes nodeset.NodeSet,
	) (map[string]string, error)
}

// Starter starts slurmd, and checks the health of nodes.
type Starter interface {
	// StartSlurmd returns when slurmd was started on an instance that is configured and has booted. An instance that
	// does not pass the health checks of its group is reconfigure.ClassUnhealthy, and its slurmd is not started.
	StartSlurmd(ctx context.Context, i reconfigure.Instance) error
	// CheckHealth runs the health checks of the group on an instance that is configured. An instance that does not pass
	// them is reconfigure.ClassUnhealthy.
	CheckHealth(ctx context.Context, i reconfigure.Instance) error
}

// SumStore stores the checksum of each node's last configuration.
type SumStore interface {
	// Sum returns that of a node; empty: it is unknown.
	Sum(ctx context.Context, node string) (string, error)
	// KeepSums durably replaces the sums of these nodes, all or none. An empty one makes it unknown.
	KeepSums(ctx context.Context, sums map[string]string) error
}

// Scheduler is Slurm.
type Scheduler interface {
	// States returns the states of those of these nodes that Slurm knows; without nodes it returns all that Slurm
	// knows. The answer may have other nodes too.
	States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error)
	// Down sets nodes DOWN with a reason that is marked as ours, so that their jobs are requeued at once. If Slurm
	// refuses one, the others MUST still be set; so after an error some are DOWN.
	Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// PowerDown gives nodes in any state back to power saving, so that Slurm may use them again.
	PowerDown(ctx context.Context, nodes nodeset.NodeSet) error
	// Drain keeps Slurm from starting jobs on nodes, with a reason that is marked as ours. Running jobs continue.
	// As with Down, if one is refused, the others MUST still be drained.
	Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// Undrain ends a drain, and changes nothing else. Callers MUST use it only for drains of ours.
	Undrain(ctx context.Context, nodes nodeset.NodeSet) error
	// ClearReason removes the reason of nodes that are up. Callers MUST use it only for reasons of ours.
	ClearReason(ctx context.Context, nodes nodeset.NodeSet) error
}

// Commenter comments on jobs, for their owners.
type Commenter interface {
	// Comment sets a comment on jobs that is marked as ours. It MUST keep the comments of others. Jobs that have ended are
	// no error.
	Comment(ctx context.Context, jobs []int64, text string) error
}

// Recorder is the part of the journal that operations use.
type Recorder interface {
	// Record writes events soon, in their order, and does not wait for that.
	Record(events ...reconfigure.Event)
	// Flush returns when the events of earlier calls are durable or lost, or when ctx ends.
	Flush(ctx context.Context) error
	// Keep returns when the evidence is durable.
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
}

// HealthStore keeps the failures of node groups.
type HealthStore interface {
	// UpdateHealth durably replaces a group's health by what update returns. Another update MUST NOT come between. For an
	// unknown group, update gets a health without failures. The name stays.
	UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error
}

// Deps has the adapters that operations work with.
type Deps struct {
	Provisioner func(shard string) Provisioner
	Cloud       Cloud
	Quota       Quota
	Images      Images
	Cleaner     Cleaner
	Waiter      Waiter
	Configurer  Configurer
	Starter     Starter
	Sums        SumStore
	Recorder    Recorder
	Health      HealthStore
	// Prepare has the next call of Configurer for changed compute nodes take less time. It returns when that call has
	// begun, or ctx ends. Nil: there is no such preparation.
	Prepare func(ctx context.Context, c reconfigure.Cluster)
	// Addresses returns the address of each node that has a port, with or without an instance. If current is false, the
	// answer may be that of the last call, unless a change of ours came since. Nil: only the instances' addresses are
	// known.
	Addresses func(ctx context.Context, current bool) (map[string]string, error)
	// FreePorts returns how many more ports the cloud admits. Nil: that is unknown.
	FreePorts func(ctx context.Context) (int, error)
	// Scheduler and Commenter use Slurm on a control node.
	Scheduler func(control reconfigure.Instance) Scheduler
	Commenter func(control reconfigure.Instance) Commenter
}

// Timing has the times for which operations wait.
type Timing struct {
	Poll      time.Duration // the interval of polls
	Quiet     time.Duration // the time without another request, or node for the playbooks, after which a run begins
	Longest   time.Duration // the longest wait before a run begins
	Preview   time.Duration // the longest time for Terraform's plan
	Straggler time.Duration // the time without progress after which a run is interrupted if others wait
	Build     time.Duration // until an instance is ACTIVE whose run was interrupted
	Hung      time.Duration // the time without progress after which the next run of the playbooks begins beside this one
	Register  time.Duration // until slurmd has registered
	Image     time.Duration // until an image is active
	Remove    time.Duration // until an instance is removed
	Stop      time.Duration // until an instance is stopped or shelved
	Aside     time.Duration // until an instance that failed is set aside
	Pause     time.Duration // before the first retry of a passing failure; it doubles with each
}

// DefaultTiming is for real clouds.
func DefaultTiming() Timing {
	return Timing{
		Poll: time.Second, Quiet: 300 * time.Millisecond, Longest: 3 * time.Second,
		Preview: 5 * time.Minute, Straggler: 10 * time.Second, Hung: 15 * time.Second,
		Build: 30 * time.Minute, Image: 2 * time.Hour, Register: 2 * time.Minute, Remove: 10 * time.Minute,
		Stop:  30 * time.Minute, // to shelve is to upload the disk
		Aside: 90 * time.Second, // a guest gets a minute to shut down
		Pause: 2 * time.Second,
	}
}
