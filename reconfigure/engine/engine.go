// Package engine carries a plan through its stages: preview, fence and apply by Terraform, boot, the playbooks, a check that the cloud and Slurm agree, and
// the report to Slurm of what did not come. It declares the seams that it needs as small interfaces; the adapters fit them by shape. Nodes succeed and fail
// one by one: every stage goes on with those that are left.
package engine

import (
	"context"
	"maps"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Watch hears what happens to a node while a stage is at it; an empty node means all of them. It must not block.
type Watch = func(node, message string)

// Provisioner makes and removes instances. It has one user at a time.
type Provisioner interface {
	// Desired is the map of nodes that was last kept for Terraform.
	Desired(ctx context.Context) (map[string]reconfigure.Spec, error)
	// Instances is what stands in Terraform's state, by node.
	Instances(ctx context.Context) (map[string]reconfigure.Instance, error)
	// Preview MUST NOT change anything. It answers *reconfigure.Refusal where the plan would do what was not asked for, and *reconfigure.Unplannable where single
	// nodes keep it from being made.
	Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error)
	// Apply MUST carry out just that preview. An error means that no verdict node by node is to be had: what happened is unknown.
	Apply(ctx context.Context, p reconfigure.Preview, watch Watch) (reconfigure.Failures, error)
	// Discard removes what Preview has saved for an Apply that will not come.
	Discard(p reconfigure.Preview) error
}

// Cloud is the cloud's own word, beside Terraform's.
type Cloud interface {
	// Resolve turns names into ids; what is wrong with them stands in the answer.
	Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved
	// Active tells the instances of ours that run, by id.
	Active(ctx context.Context) (map[string]bool, error)
	// Faults is what went wrong with instances of ours, in the cloud's words, by node: Terraform tells only that something did.
	Faults(ctx context.Context) (map[string]string, error)
	// Reboot returns when the instance has been started again.
	Reboot(ctx context.Context, id string) error
	// Console is the end of an instance's console log, at most so many lines of it, or all that there is for zero. It may be empty, and what is on it need not be
	// text.
	Console(ctx context.Context, id string, lines int) (string, error)
}

// Sweeper finds and deletes instances that Terraform does not know.
type Sweeper interface {
	// Made is the ids of all instances of ours that the cloud has, by node, whatever became of them and whoever knows of them.
	Made(ctx context.Context) (map[string][]string, error)
	// RemoveOrphan returns when the cloud has the instance no more. That it is gone already is success. One that is not ours, has another name or was not made
	// before the time MUST stay.
	RemoveOrphan(ctx context.Context, id, name string, before time.Time) error
}

// Surveyor knows how many instances the project may have.
type Surveyor interface {
	// Room is what there is at this moment: others may take of it too.
	Room(ctx context.Context) (reconfigure.Room, error)
}

// Greeter waits until instances answer.
type Greeter interface {
	// Await returns when each instance has answered by SSH with a host key that is known, or never will: it is not waited for any longer than until, where its node
	// stands there. The keys of the fresh ones are learnt.
	Await(ctx context.Context, instances []reconfigure.Instance, fresh nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures
}

// Configurer runs the playbooks. It MUST be idempotent.
type Configurer interface {
	// Configure tells all instances of each other, and configures as many as the extent says. What goes wrong on a node that did not change is no failure. An
	// error means that no verdict node by node is to be had. It is called by one at a time. Done, which may be nil, hears the result of each changed node as soon
	// as it is known.
	Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch Watch,
		done func(node string, err error)) (reconfigure.Failures, error)
}

// Scheduler is Slurm.
type Scheduler interface {
	// States is every node that Slurm knows.
	States(ctx context.Context) (map[string]reconfigure.NodeState, error)
	// Down sets nodes DOWN with a reason that is marked as ours, so that their jobs are requeued at once. That Slurm refuses one MUST NOT keep the others from
	// being set; so after an error some are DOWN.
	Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// PowerDown hands nodes back to power saving, whatever state they are in, so that Slurm may use them again.
	PowerDown(ctx context.Context, nodes nodeset.NodeSet) error
	// Drain has Slurm start no more jobs on nodes, for a reason that is marked as ours. Jobs that run go on. As with Down, one that is refused MUST NOT keep the
	// others from being drained.
	Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error
	// Undrain takes a drain back, and changes nothing else. It MUST be asked for drains of ours only.
	Undrain(ctx context.Context, nodes nodeset.NodeSet) error
}

// Commenter is Slurm, as those see it who have jobs.
type Commenter interface {
	// Comment has jobs carry a text that is marked as ours, where their owners look for it. It MUST leave alone what somebody else has put there, and jobs that
	// have ended are no error.
	Comment(ctx context.Context, jobs []int64, text string) error
}

// Recorder is the journal.
type Recorder interface {
	// Record returns when the events are durable.
	Record(ctx context.Context, events ...reconfigure.Event) error
	// Keep returns when the evidence is durable.
	Keep(ctx context.Context, evidence ...reconfigure.Evidence) error
}

// HealthKeeper keeps how node groups fare, beside the journal.
type HealthKeeper interface {
	// Health is how the groups fare that do not fare well, by name.
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
	// UpdateHealth puts what update makes of a group's health in its place, durably: another one MUST NOT come between. Of a group of which nothing is known it
	// gets the health of one that fares well. The name stays.
	UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error
}

// Deps is what an engine works with.
type Deps struct {
	Provisioner Provisioner
	Cloud       Cloud
	Sweeper     Sweeper
	Surveyor    Surveyor
	Greeter     Greeter
	Configurer  Configurer
	Recorder    Recorder
	Health      HealthKeeper
	// Scheduler reaches the Slurm of a control node.
	Scheduler func(control reconfigure.Instance) Scheduler
	// Commenter reaches the same Slurm.
	Commenter func(control reconfigure.Instance) Commenter
	// Poll is the pause between two looks at a state that is waited for.
	Poll time.Duration
	// Common is what this engine has in common with those that carry out other batches at the same time; nil: there are none.
	Common *Common
}

// Engine carries out plans for one cluster.
type Engine struct {
	Deps
	cluster reconfigure.Cluster
}

// New makes an engine.
func New(cluster reconfigure.Cluster, deps Deps) *Engine {
	if deps.Common == nil {
		deps.Common = NewCommon()
	}
	return &Engine{Deps: deps, cluster: cluster}
}

// Observe looks at everything that a plan must know. Sources says what names are to be resolved, once Slurm's states are known; that it does not answer is part
// of the observation, not an error.
func (e *Engine) Observe(ctx context.Context, sources func(map[string]reconfigure.NodeState) []reconfigure.Source) (reconfigure.Observation, error) {
	desired, err := e.Provisioner.Desired(ctx)
	if err != nil {
		return reconfigure.Observation{}, err
	}
	instances, err := e.Provisioner.Instances(ctx)
	if err != nil {
		return reconfigure.Observation{}, err
	}
	seen := reconfigure.Observation{Time: time.Now(), Desired: carriedOut(desired, instances), Instances: instances, Sources: map[reconfigure.Source]reconfigure.Resolved{}}
	if seen.Health, err = e.Health.Health(ctx); err != nil {
		return reconfigure.Observation{}, err
	}
	seen.States, err = e.states(ctx, instances)
	if seen.Slurm = err == nil; err != nil {
		seen.Silence = err.Error()
	}
	for _, source := range sources(seen.States) {
		seen.Sources[source] = e.Cloud.Resolve(ctx, source)
	}
	return seen, nil
}

// carriedOut is the map of nodes as it became true. It is written down before the deed; when Terraform was killed in between, an instance is still what it was,
// and what was to be made of it is yet to be done.
func carriedOut(desired map[string]reconfigure.Spec, instances map[string]reconfigure.Instance) map[string]reconfigure.Spec {
	actual := maps.Clone(desired)
	for node := range desired {
		made := instances[node].Made
		known := made.Group != "" && made.ImageID != "" && made.FlavorID != "" && made.NetworkID != ""
		if known && !instances[node].Tainted {
			actual[node] = made
		}
	}
	return actual
}

// Preview is what Terraform would do for a plan. It changes nothing, and leaves nothing.
func (e *Engine) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	preview, err := e.Provisioner.Preview(ctx, p)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	return preview, e.Provisioner.Discard(preview)
}

func (e *Engine) states(ctx context.Context, instances map[string]reconfigure.Instance) (map[string]reconfigure.NodeState, error) {
	slurm, err := e.scheduler(instances)
	if err != nil {
		return nil, err
	}
	return slurm.States(ctx)
}
