package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// stage is one step of the way. It acts on the nodes that are left and marks those that fail; an error ends the way of them all.
type stage struct {
	phase reconfigure.Phase
	acts  []reconfigure.Action // on nodes with these actions; a stage without such a node is passed over
	run   func(*batch, context.Context, nodeset.NodeSet) error
}

// making is the first part of the way, on which nobody else may use Terraform.
func making() []stage {
	return []stage{
		// No stage waits for jobs: a node that is drained now is planned again when they have ended.
		{reconfigure.PhaseDrain, []reconfigure.Action{reconfigure.Drain}, (*batch).drain},
		{reconfigure.PhaseDrain, []reconfigure.Action{reconfigure.Undrain}, (*batch).undrain},
		// First the instances: nothing else can be done for a node that is not there, and the preview may refuse it all.
		{reconfigure.PhaseApply, []reconfigure.Action{reconfigure.Create, reconfigure.Replace, reconfigure.Remove}, (*batch).provision},
	}
}

// readying is the rest of it, on which other batches may be under way too.
func readying() []stage {
	const create, replace, reboot, configure, remove = reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure, reconfigure.Remove
	return []stage{
		{reconfigure.PhaseApply, []reconfigure.Action{reboot}, (*batch).reboot},
		// A playbook that meets a closed port fails; so wait here, where each node has its own time.
		{reconfigure.PhaseBoot, []reconfigure.Action{create, replace, reboot}, (*batch).greet},
		// The playbooks end with slurmd: a job starts the moment that it registers.
		{reconfigure.PhaseConfigure, []reconfigure.Action{create, replace, reboot, configure}, (*batch).configure},
		// What Terraform and Ansible believe counts only when the cloud and Slurm say so too.
		{reconfigure.PhaseVerify, []reconfigure.Action{create, replace, reboot, configure, remove}, (*batch).verify},
	}
}

// Carry carries out a plan, and gives a verdict on each of its changes. The error is of the journal: what could not be written down was not begun. Even then
// the nodes that had failed before are cleaned up, and handed back; those that were on their way are left to whoever reads the journal next. Where ctx ends for
// ErrLeadLost that is the error, and everything is left to that one.
//
// The caller MUST have the turn with Terraform since before the observation. Carry calls made, once, when the turn may end, however it went; what is left to clean
// has a turn of its own.
func (e *Engine) Carry(ctx context.Context, number int64, seen reconfigure.Observation, plan reconfigure.Plan, made func()) (map[string]reconfigure.Verdict, error) {
	b := &batch{
		Engine: e, number: number, begun: time.Now(), plan: plan, before: seen.Desired, was: seen.States, instances: maps.Clone(seen.Instances),
		verdicts: map[string]reconfigure.Verdict{}, again: map[string]try{}, learning: learning{planned: seen.Time},
	}
	lasting, end := whileLeading(ctx)
	defer end()
	b.probe(ctx)
	b.reject(lasting)
	b.Common.found(seen.Instances)
	b.keepApart()
	defer b.Common.keepApart(b, nodeset.NodeSet{})
	err := b.walk(ctx, making())
	made()
	if err == nil {
		err = b.walk(ctx, readying())
	}
	b.phase = reconfigure.PhaseReport
	for _, finish := range []func(*batch, context.Context){(*batch).clean, (*batch).handOver, (*batch).release} {
		if leads(ctx) {
			finish(b, lasting)
		}
	}
	switch {
	case !leads(ctx):
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	for _, c := range plan.Changes {
		if _, failed := b.verdicts[c.Node]; !failed {
			b.verdicts[c.Node] = reconfigure.Verdict{Node: c.Node, Action: c.Action, Status: reconfigure.StatusDone, Reason: c.Note}
		}
	}
	b.learn(ctx)
	for node := range b.again {
		verdict := b.verdicts[node]
		verdict.Again = true
		b.verdicts[node] = verdict
	}
	return b.verdicts, nil
}

// whileLeading is ctx for what is done to its end also when the worker is to end, and when the time of a stage is over. It ends with the lead alone: from then on
// another worker may be at the same nodes.
func whileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	lost := func() {
		if !leads(ctx) {
			end(context.Cause(ctx))
		}
	}
	lost() // AfterFunc takes a moment where ctx has ended already
	stop := context.AfterFunc(ctx, lost)
	return lasting, func() { stop(); end(nil) }
}

// leads tells that the lead is not lost, whatever else has ended ctx.
func leads(ctx context.Context) bool { return !errors.Is(context.Cause(ctx), reconfigure.ErrLeadLost) }

// walk goes through stages with the nodes that are left.
func (b *batch) walk(ctx context.Context, stages []stage) error {
	for _, s := range stages {
		nodes := b.left(s.acts...)
		if nodes.Empty() && !(b.plan.Shared && slices.Contains(s.acts, reconfigure.Remove) && s.phase == reconfigure.PhaseApply) {
			continue
		}
		if err := b.record(ctx, s.phase, reconfigure.Begun, nodes); err != nil {
			return err
		}
		b.phase = s.phase
		if err := s.run(b, ctx, nodes); err != nil {
			b.failAll(ctx, b.abandoned(s), err)
			return nil
		}
		if done := nodes.Intersect(b.left()); nodes.Empty() || !done.Empty() {
			if err := b.record(ctx, s.phase, reconfigure.Done, done); err != nil {
				return err
			}
		}
	}
	return nil
}

// abandoned is the nodes whose way an error of a stage ends: not those that were only to be drained or undrained, which is done by then.
func (b *batch) abandoned(s stage) nodeset.NodeSet {
	if s.phase == reconfigure.PhaseDrain {
		return b.left()
	}
	return b.left().Difference(b.plan.Nodes(reconfigure.Drain, reconfigure.Undrain))
}

// reject tells Slurm of the nodes that it waits for and that do not even begin their way, and writes down why: when Slurm has them back, it has forgotten that.
func (b *batch) reject(ctx context.Context) {
	rejected := rejections(b.plan)
	for node := range b.tell(ctx, rejected).All() {
		_ = b.Recorder.Record(ctx, reconfigure.Event{Batch: b.number, Node: node, Phase: reconfigure.PhasePlan, Level: reconfigure.Failed, Message: said(rejected[node])})
	}
}

// rejections is the nodes that Slurm has asked for and that nothing could be planned for: it must be told where it waits for one of them. It may wait for others
// too, but that is then the business of a request of its own.
func rejections(plan reconfigure.Plan) reconfigure.Failures {
	rejected := reconfigure.Failures{}
	for _, r := range plan.Rejected {
		if _, changes := plan.Of(r.Node); !changes && r.Awaited {
			rejected[r.Node] = reconfigure.Classify(r.Class, errors.New(r.Reason))
		}
	}
	return rejected
}

// batch is a plan on its way.
type batch struct {
	*Engine
	number      int64
	begun       time.Time
	phase       reconfigure.Phase
	plan        reconfigure.Plan
	before      map[string]reconfigure.Spec      // the map of nodes before the plan
	instances   map[string]reconfigure.Instance  // as last seen
	verdicts    map[string]reconfigure.Verdict   // of the nodes whose way has ended
	touched     nodeset.NodeSet                  // the nodes whose instance was to be made or restarted: there may be something to clean
	provisioned nodeset.NodeSet                  // the nodes that Terraform has done with
	fresh       nodeset.NodeSet                  // the nodes whose instance is new, or has a new disk
	was         map[string]reconfigure.NodeState // as Slurm had the nodes before the plan
	held        nodeset.NodeSet                  // the nodes whose instance was left alone for the sake of a job
	toldDown    nodeset.NodeSet                  // the nodes that Slurm was told are down, or may have been
	ready       nodeset.NodeSet                  // the nodes that can be logged in to by anybody
	again       map[string]try                   // the nodes that failed, and may be tried once more: Slurm was not told of them
	learning
}

// keepApart tells other batches which nodes they cannot log in to yet. Those that failed are so to the end: what is left of them may go.
func (b *batch) keepApart() {
	moving := b.plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Remove)
	b.Common.keepApart(b, moving.Difference(b.ready))
}

// find reads what stands in Terraform's state. It MUST be this batch's turn with Terraform.
func (b *batch) find(ctx context.Context) error {
	instances, err := b.Provisioner.Instances(ctx)
	if err != nil {
		return err
	}
	b.instances = instances
	b.Common.found(instances)
	return nil
}

// left is the nodes that are still on their way.
func (b *batch) left(actions ...reconfigure.Action) nodeset.NodeSet {
	return b.plan.Nodes(actions...).Difference(nodeset.Collect(maps.Keys(b.verdicts)))
}

// record writes down where nodes are on their way; without nodes, what no single node owns.
func (b *batch) record(ctx context.Context, phase reconfigure.Phase, level reconfigure.Level, nodes nodeset.NodeSet) error {
	names := nodes.Names()
	if len(names) == 0 {
		names = []string{""}
	}
	events := make([]reconfigure.Event, len(names))
	for i, node := range names {
		events[i] = reconfigure.Event{Batch: b.number, Node: node, Phase: phase, Level: level}
	}
	return b.Recorder.Record(ctx, events...)
}

// note tells people something; a journal that cannot take it must not end the work that is under way.
func (b *batch) note(ctx context.Context, node, message string) {
	_ = b.Recorder.Record(ctx, reconfigure.Event{Batch: b.number, Node: node, Phase: b.phase, Level: reconfigure.Note, Message: message})
}

func (b *batch) watch(ctx context.Context) Watch {
	return func(node, message string) { b.note(ctx, node, message) }
}

// fail ends the way of some nodes, and has Slurm requeue their jobs at once: it would wait for ResumeTimeout. But those that are to be tried once more it is to wait
// for. That is told and written down also when the time for the stage is over, or the worker is to end; but not when the lead is lost, since that may be all that is
// wrong with them.
func (b *batch) fail(ctx context.Context, failures reconfigure.Failures) {
	ctx, end := whileLeading(ctx)
	defer end()
	ended := reconfigure.Failures{}
	for node := range failures.Nodes().Intersect(b.left()).All() {
		err := failures[node]
		change, _ := b.plan.Of(node)
		b.verdicts[node] = reconfigure.Verdict{Node: node, Action: change.Action, Status: status(err), Phase: b.phase, Class: reconfigure.ClassOf(err), Reason: err.Error()}
		_ = b.Recorder.Record(ctx, reconfigure.Event{Batch: b.number, Node: node, Phase: b.phase, Level: reconfigure.Failed, Message: said(err)})
		if _, again := b.again[node]; !again {
			ended[node] = err
		}
	}
	b.tell(ctx, ended)
}

func status(err error) reconfigure.Status {
	if refusal := (*reconfigure.Refusal)(nil); errors.As(err, &refusal) {
		return reconfigure.StatusRefused
	}
	return reconfigure.StatusFailed
}

func (b *batch) failAll(ctx context.Context, nodes nodeset.NodeSet, err error) {
	b.fail(ctx, all(nodes, err))
}

// scheduler reaches Slurm on the control node that the instances have.
func (e *Engine) scheduler(instances map[string]reconfigure.Instance) (Scheduler, error) {
	control, ok := instances[e.cluster.Control.Name]
	switch {
	case !ok:
		return nil, errors.New("there is no control node yet")
	case control.Address == "":
		return nil, fmt.Errorf("control node %s has no address", control.Node)
	}
	return e.Scheduler(control), nil
}
