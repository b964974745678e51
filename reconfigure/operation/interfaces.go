package operation

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Watch hears what happens to a node while a tool is at it; an empty node means what no single node owns. It must not block.
type Watch = func(node, message string)

// Provisioner makes and removes instances in one shard. It has one user at a time.
type Provisioner interface {
	// State is what Terraform was last told of this shard's nodes, and what its state has.
	State(ctx context.Context) (reconfigure.State, error)
	// Preview MUST NOT change anything. It answers *reconfigure.Refusal where the plan would do what was not asked for, and
	// *reconfigure.Unplannable where single nodes keep it from being made.
	Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error)
	// Apply MUST carry out just that preview. When interrupt is closed it ends soon, and gracefully: a node whose change was
	// cut off has a failure that is reconfigure.ErrInterrupted. An error means that no verdict node by node is to be had:
	// what happened is unknown.
	Apply(ctx context.Context, p reconfigure.Preview, watch Watch, interrupt <-chan struct{}) (reconfigure.Failures, error)
	// Adopt has the state take servers for the finished instances of the plan's nodes: those that it has as half made, and
	// those that it does not have. It counts only where Terraform then finds nothing to change; whatever is not proven so
	// MUST be left as it was, and is named in the failures.
	Adopt(ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server) (nodeset.NodeSet, reconfigure.Failures, error)
	// Discard removes what Preview has saved for an Apply that will not come.
	Discard(p reconfigure.Preview) error
}

// Cloud is what the cloud itself says and does, beside Terraform.
type Cloud interface {
	// Servers is the instances of these nodes, by node, the oldest first, whatever became of them; without nodes it is all of
	// the cluster. It may have those of other nodes, too.
	Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error)
	// Fault is what went wrong with a server in ERROR, in the cloud's words; empty where it does not say.
	Fault(ctx context.Context, id string) (string, error)
	// Reboot returns when the instance has been started again.
	Reboot(ctx context.Context, id string) error
	// Console is the end of an instance's console log, at most so many lines of it, or all that there is for zero. It may be
	// empty, and what is on it need not be text.
	Console(ctx context.Context, id string, lines int) (string, error)
	// RemoveServer returns when the cloud has the instance no more. That it is gone already is success. One that is not the
	// cluster's, has another name or was not made before the time MUST stay.
	RemoveServer(ctx context.Context, id, name string, before time.Time) error
}

// Quota knows how many instances the project may have.
type Quota interface {
	// Room is what there is at this moment: others may take of it too.
	Room(ctx context.Context) (reconfigure.Room, error)
}

// Waiter waits for SSH.
type Waiter interface {
	// Wait returns when the instance has answered by SSH with a host key that is known. The key of a fresh one is learnt.
	// When ctx ends first, the error says what the last attempt found.
	Wait(ctx context.Context, i reconfigure.Instance, fresh bool) error
}

// Configurer runs the playbooks. It MUST be idempotent, and has one user at a time.
type Configurer interface {
	// Configure configures as many instances as the extent says. It calls done for each changed node as soon as its own
	// result is known; the failures say the same once more, for all of them. What goes wrong on a node that did not change is
	// no failure. An error means that no verdict node by node is to be had but those that done was called with.
	Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
		watch Watch, done func(node string, err error)) (reconfigure.Failures, error)
}

// Scheduler is Slurm.
type Scheduler interface {
	// States is these nodes, as far as Slurm knows them; without nodes it is all that it knows. It may have others, too.
	States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error)
	// Down sets nodes DOWN with a reason that is marked as ours, so that their jobs are requeued at once. That Slurm refuses
	// one MUST NOT keep the others from being set; so after an error some are DOWN.
	Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// PowerDown gives nodes back to power saving, whatever state they are in, so that Slurm may use them again.
	PowerDown(ctx context.Context, nodes nodeset.NodeSet) error
	// Drain has Slurm start no more jobs on nodes, for a reason that is marked as ours. Running jobs go on. As with Down, one
	// that is refused MUST NOT keep the others from being drained.
	Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// Undrain takes a drain back, and changes nothing else. It MUST be asked for drains of ours only.
	Undrain(ctx context.Context, nodes nodeset.NodeSet) error
	// ClearReason removes the reason of nodes that are up. It MUST be asked for reasons of ours only.
	ClearReason(ctx context.Context, nodes nodeset.NodeSet) error
}

// Commenter is Slurm as the owners of jobs see it.
type Commenter interface {
	// Comment has jobs carry a text that is marked as ours, where their owners look for it. It MUST leave alone what somebody
	// else has put there, and jobs that have ended are no error.
	Comment(ctx context.Context, jobs []int64, text string) error
}

// Recorder is the journal, as operations use it.
type Recorder interface {
	// Record takes events to be written soon, in their order. It does not wait.
	Record(events ...reconfigure.Event)
	// Keep returns when the evidence is durable.
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
}

// HealthStore keeps the failures of node groups.
type HealthStore interface {
	// UpdateHealth puts what update makes of a group's health in its place, durably: another update MUST NOT come between. Of
	// a group of which nothing is known it gets the health of one without failures. The name stays.
	UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error
}

// Deps is what operations work with.
type Deps struct {
	Provisioner func(shard string) Provisioner
	Cloud       Cloud
	Quota       Quota
	Waiter      Waiter
	Configurer  Configurer
	Recorder    Recorder
	Health      HealthStore
	// Addresses is the address of each node that has a port, with or without an instance; nil: nothing is known but the
	// instances. The answer may be that of the last call where nothing of ours has changed it, unless it is to be fresh.
	Addresses func(ctx context.Context, fresh bool) (map[string]string, error)
	// Scheduler and Commenter reach the Slurm of a control node.
	Scheduler func(control reconfigure.Instance) Scheduler
	Commenter func(control reconfigure.Instance) Commenter
}

// Timing is how long operations wait for what.
type Timing struct {
	Poll      time.Duration // between two looks at what is waited for
	Quiet     time.Duration // a run of a tool begins when no other node came for so long
	Longest   time.Duration // but after so long at the latest
	Straggler time.Duration // a run in which nothing moves any more is interrupted after so long, when others wait
	Build     time.Duration // until an instance is ACTIVE at which Terraform was interrupted
	Hung      time.Duration // a run of the playbooks in which nothing moves any more is left alone after so long, when others wait
	Register  time.Duration // until slurmd has registered
	Remove    time.Duration // until an instance that is removed is gone
	Pause     time.Duration // before the first retry of what may pass by itself; it doubles with each
}

// DefaultTiming is for real clouds.
func DefaultTiming() Timing {
	return Timing{
		Poll: time.Second, Quiet: 300 * time.Millisecond, Longest: 3 * time.Second, Straggler: 10 * time.Second, Hung: 15 * time.Second,
		Build: 30 * time.Minute, Register: 2 * time.Minute, Remove: 10 * time.Minute, Pause: 2 * time.Second,
	}
}
