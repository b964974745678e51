package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// provision is an operation's call of Terraform.
type provision struct {
	op     *operation          // nil: the shared resources, of a round that is Shared
	round  *round              // of the shared resources
	remove bool                // everything that there is of the node
	server *reconfigure.Server // to adopt as the node's finished instance
	anew   bool                // the instance is made, although the change is no creation
	again  int                 // the number of interrupted runs that it was asked for in before
}

// made is an instance.
type made struct {
	instance reconfigure.Instance
	settled  <-chan error // Terraform's own verdict; nil: it is known already
	taken    bool         // the instance was made for the request before the plan
}

type provisionCall = batcher.Call[provision, made]

// change returns the call's change in a plan.
func (p provision) change() reconfigure.Change {
	c := p.op.change
	switch {
	case p.remove && c.Action != reconfigure.Remove:
		reason := "it failed"
		switch c.Action {
		case reconfigure.Capture:
			reason = "its disk was cleaned for an image"
		case reconfigure.Stop:
			reason = "it could not be stopped"
		}
		return reconfigure.Change{
			Node: c.Node, Action: reconfigure.Remove, Reason: reason, Requests: c.Requests, Force: false,
		}
	case c.Action == reconfigure.Capture: // after the image
		c.Action = reconfigure.Create
		if _, there := p.op.round.Seen.Instances[c.Node]; there {
			c.Action = reconfigure.Replace
		}
	case !p.remove && (c.Action == reconfigure.Reboot || c.Action == reconfigure.Boot || p.anew):
		// the boot has failed, or the instance is gone
		c.Action, c.Spec = reconfigure.Create, p.op.round.Plan.Desired[c.Node]
	}
	return c
}

// entry returns the node's entry in the map of nodes after the call; false: none. Of a node that failed only the port
// is kept.
func (p provision) entry() (reconfigure.Spec, bool) {
	r := p.op.round
	if p.remove && p.op.change.Action != reconfigure.Remove {
		spec, ok := r.Plan.Desired[p.op.change.Node]
		if !ok {
			return spec, false
		}
		return r.Cluster.WithoutInstance(p.op.change.Node, spec)
	}
	spec, ok := r.Plan.Desired[p.op.change.Node]
	return spec, ok
}

// adopts reports whether an instance is only adopted, and none made or removed.
func (p provision) adopts() bool {
	return p.server != nil || p.op != nil && !p.remove && p.op.change.Action == reconfigure.Adopt && !p.anew
}

// provisioning runs Terraform in one shard, for all operations that wait.
type provisioning struct {
	*Operator
	shard string
	calls *batcher.Batcher[provision, made]
}

// most is the largest number of changes in one run of Terraform: the cost of creation grows with the square of the
// nodes in a state.
const most = 200

// in returns the part of the operator that works in a shard.
func (o *Operator) in(shard string) *provisioning {
	o.lock.Lock()
	defer o.lock.Unlock()
	l, ok := o.shards[shard]
	if !ok {
		l = &provisioning{Operator: o, shard: shard}
		config := o.together(o.timing.Quiet, o.timing.Longest)
		config.Most = most
		l.calls = batcher.New(config, l.run)
		o.shards[shard] = l
	}
	return l
}

// shard returns the shard of the node's resources.
func (o *operation) shard() string {
	if spec, ok := o.round.Plan.Desired[o.change.Node]; ok {
		return spec.Shard
	}
	return o.round.Seen.Shard(o.change.Node)
}

// ask calls Terraform for the node.
func (o *operation) ask(ctx context.Context, p provision) (made, error) {
	// A run may read the call when the operation goes on.
	p.op, p.anew = o, o.anew || o.change.Action == reconfigure.Start && o.removed
	if err := o.round.turn(ctx, o); err != nil {
		return made{}, err
	}
	o.waiting.Store(true)
	defer o.round.provisioned(o)
	return o.in(o.shard()).calls.Do(ctx, p)
}

// run is one run of Terraform. A node that is refused leaves the run with its own error, and the rest is previewed
// again, since a saved plan cannot be applied in part.
func (l *provisioning) run(r *batcher.Run[provision, made]) {
	ctx := l.ctx
	l.gather(r)
	_, deps := l.using()
	t := &attempt{provisioning: l, deps: deps, terraform: deps.Provisioner(l.shard), run: r}
	for t.once(ctx) && ctx.Err() == nil {
		r.More()
	}
	t.forgotten()
}

// gather waits for all calls of a round that is Shared: shared resources may refer to a node's resources.
func (l *provisioning) gather(r *batcher.Run[provision, made]) {
	for {
		missing := false
		for _, c := range r.Calls {
			if round := c.In.sharedRound(); round != nil && l.shard == reconfigure.DefaultShard && round.expected(r.Calls) > 0 {
				missing = true
			}
		}
		if !missing {
			return
		}
		select {
		case <-r.Awaited():
			r.More()
		case <-time.After(l.timing.Poll): // an operation may have ended without a call
		case <-l.ctx.Done():
			return
		}
	}
}

// sharedRound returns the round of a call for shared resources.
func (p provision) sharedRound() *round {
	if p.op == nil {
		return p.round
	}
	return nil
}

// of returns the round of a call.
func (p provision) of() *round {
	if p.op == nil {
		return p.round
	}
	return p.op.round
}

// attempt is one attempt to carry out the calls of a run.
type attempt struct {
	*provisioning
	deps      Deps
	terraform Provisioner
	run       *batcher.Run[provision, made]

	locked  time.Time   // since when another process has the lock of the state; zero: none has
	forget  []*delivery // calls whose instance is gone, but still in the state
	state   reconfigure.State
	servers map[string][]reconfigure.Server
	unseen  error // why the servers are unknown
}

// once makes a plan and carries it out. It returns true if something is left to do.
func (t *attempt) once(ctx context.Context) (again bool) {
	calls := t.open()
	if len(calls) == 0 && len(t.forget) == 0 {
		return false
	}
	var err error
	if t.state, err = t.terraform.State(ctx); err != nil {
		t.failAll(calls, err)
		return false
	}
	t.found(t.state.Instances)
	if nodes := t.nodes(calls); !nodes.Empty() { // without nodes it would be asked for all of the cluster
		if t.servers, t.unseen = t.serversOf(ctx, nodes); t.unseen != nil && ctx.Err() != nil {
			return false
		}
	}
	if calls = t.adoptKnown(ctx, calls); len(calls) == 0 && len(t.forget) == 0 {
		return false
	}
	plan := t.plan(calls)
	preview, err := t.preview(ctx, plan)
	if bad := (*reconfigure.Unplannable)(nil); errors.As(err, &bad) && t.failSome(calls, bad.Failures) {
		return true
	}
	if reconfigure.ClassOf(err) == reconfigure.ClassLocked && t.awaitLock(ctx, err) {
		return true // with the state that the other process has left
	}
	if err != nil {
		t.failAll(calls, err)
		return false
	}
	t.locked = time.Time{}
	refused := t.refuse(ctx, plan, calls)
	if len(refused) == 0 && len(t.waiting(calls)) == len(calls) {
		return t.apply(ctx, preview, calls)
	}
	if err := t.terraform.Discard(preview); err != nil {
		t.failAll(calls, err)
		return false
	}
	t.failSome(calls, refused)
	return true
}

// errSilent ends a plan of Terraform's that takes too long. The provider sets no time limit for an answer of the cloud.
var errSilent = reconfigure.Classify(reconfigure.ClassCloud, errors.New("the plan of Terraform did not end in time: a "+
	"service of the cloud, Nova or Neutron, accepts calls and does not answer; ask the cloud's administrators"))

// awaitLock reports whether to try again after another process had the lock of the state: until the lock timeout. Who has
// it, and how to release it, is recorded at once, since a Terraform that was killed may have left it.
func (t *attempt) awaitLock(ctx context.Context, locked error) bool {
	cluster, _ := t.using()
	if t.locked.IsZero() {
		t.locked = time.Now()
		rounds := map[*round]bool{}
		for _, c := range t.open() {
			rounds[c.In.of()] = true
		}
		t.noteRun(rounds, reconfigure.PhaseApply, fmt.Sprintf(
			"Terraform waits for at most %s: %v", cluster.Settings.LockTimeout, locked))
	}
	return time.Since(t.locked) < cluster.Settings.LockTimeout && pause(ctx, t.timing.Poll)
}

// preview has Terraform make its plan, for a limited time: a service that hangs must not hold back what comes later.
func (t *attempt) preview(ctx context.Context, plan reconfigure.Plan) (reconfigure.Preview, error) {
	limited, cancel := context.WithTimeoutCause(ctx, t.timing.Preview, errSilent)
	defer cancel()
	preview, err := t.terraform.Preview(limited, plan)
	if err != nil && errors.Is(context.Cause(limited), errSilent) {
		err = errSilent
	}
	return preview, err
}

// open returns the calls without a result whose callers still wait.
func (t *attempt) open() []*provisionCall { return t.waiting(t.run.Calls) }

// nodes is those of some calls, and those that the state is to forget.
func (t *attempt) nodes(calls []*provisionCall) nodeset.NodeSet {
	var names []string
	for _, c := range calls {
		if c.In.op != nil {
			names = append(names, c.In.op.change.Node)
		}
	}
	for _, d := range t.forget {
		names = append(names, d.call.In.op.change.Node)
	}
	return nodeset.Of(names...)
}

// waiting is those of some calls whose callers still wait. Nothing is made for a node that is too late.
func (t *attempt) waiting(calls []*provisionCall) []*provisionCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c *provisionCall) bool { return c.Finished() })
}

// plan returns the plan for Terraform: the shard's whole map of nodes with the changes of the calls.
func (t *attempt) plan(calls []*provisionCall) reconfigure.Plan {
	plan := reconfigure.Plan{Desired: maps.Clone(t.state.Desired)}
	if plan.Desired == nil {
		plan.Desired = map[string]reconfigure.Spec{}
	}
	for _, c := range calls {
		if round := c.In.sharedRound(); round != nil {
			plan.Shared = true
			t.adjust(plan.Desired, round)
		}
	}
	for _, c := range calls {
		if c.In.op == nil {
			continue
		}
		change := c.In.change()
		plan.Changes = append(plan.Changes, change)
		plan.Jobs = append(plan.Jobs, jobsOf(c.In.op)...)
		if spec, ok := c.In.entry(); ok {
			plan.Desired[change.Node] = spec
		} else {
			delete(plan.Desired, change.Node)
		}
	}
	for _, d := range t.forget {
		change := d.call.In.change()
		if _, changes := plan.Of(change.Node); !changes {
			plan.Changes = append(plan.Changes, change)
			if spec, ok := d.call.In.entry(); ok {
				plan.Desired[change.Node] = spec
			} else {
				delete(plan.Desired, change.Node)
			}
		}
	}
	slices.SortFunc(plan.Changes, func(a, b reconfigure.Change) int { return cmp.Compare(a.Node, b.Node) })
	// The shared resources are removed with the last node.
	plan.Shared = plan.Shared || t.shard == reconfigure.DefaultShard && len(plan.Desired) == 0
	return plan
}

// adjust changes the map of nodes to that of a round that is Shared, except for the nodes that the round changes: these
// have calls of their own.
func (t *attempt) adjust(desired map[string]reconfigure.Spec, r *round) {
	changed := r.Plan.Nodes()
	for node := range desired {
		if _, stays := r.Plan.Desired[node]; !stays && !changed.Contains(node) {
			delete(desired, node)
		}
	}
	for node, spec := range r.Plan.Desired {
		if spec.Shard == t.shard && !changed.Contains(node) {
			desired[node] = spec
		}
	}
}

// jobsOf returns the jobs of the operation's round that wait for its node.
func jobsOf(o *operation) []reconfigure.Job {
	var jobs []reconfigure.Job
	for _, job := range o.round.Plan.Jobs {
		if job.Nodes.Contains(o.change.Node) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (t *attempt) failAll(calls []*provisionCall, err error) {
	for _, c := range calls {
		c.Finish(made{}, err)
	}
}

// failSome fails the calls of these nodes, and reports whether there were any.
func (t *attempt) failSome(calls []*provisionCall, failures reconfigure.Failures) (any bool) {
	for _, c := range calls {
		if c.In.op == nil {
			continue
		}
		if err := failures[c.In.op.change.Node]; err != nil {
			c.Finish(made{}, err)
			any = true
		}
	}
	return any
}

// note records a message about a node. Its operation may be in a later phase by now.
func (t *attempt) note(op *operation, message string) {
	if op != nil {
		op.noteOf(reconfigure.PhaseApply, message)
	}
}
