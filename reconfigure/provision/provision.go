// Package provision makes, removes and imports instances with Terraform. It takes orders, runs Terraform once for all
// waiting orders of a shard, reports the progress to each caller by events, and returns each result as soon as the
// cloud shows it. It knows the orders' nodes; of Slurm it knows only the states that the guard needs.
//
// A run checks as late as possible which orders must leave it: because Terraform's plan has other changes, because an
// instance with a job would be lost, or for lack of quota. A run that delays others is interrupted, and the changes
// that the cloud has made by then are imported into the state.
package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// ErrStays is the failure of a removal.
var ErrStays = errors.New("its instance is still there")

// Config has the data that the shards share.
type Config struct {
	Timing Timing
	// Under counts the runs in progress and the work beside them.
	Under *sync.WaitGroup
	// Expected reports whether other orders may come soon. If not, a run begins after a moment instead of Timing.Quiet.
	// Nil: always.
	Expected func() bool
	// Using returns the declaration and the adapters for new work.
	Using func() (reconfigure.Cluster, Deps)
	// States returns the current states of these nodes, without those that Slurm does not know.
	States func(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error)
	// Servers returns the current instances of these nodes in the cloud.
	Servers func(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error)
	// Found receives the instances in Terraform's state.
	Found func(map[string]reconfigure.Instance)
	// NoRoom receives the nodes for which the cloud has no room, before their orders fail.
	NoRoom func(reconfigure.Failures)
	// Flush makes durable what the receivers of events have recorded, if possible. It is called after Begun and before
	// Terraform changes anything.
	Flush func(ctx context.Context)
	// Note records a message about a run, for each of these plans.
	Note func(plans map[int64]bool, message string)
}

// Timing has the times for which runs wait.
type Timing struct {
	Poll      time.Duration // the interval of polls
	Quiet     time.Duration // the time without another order after which a run begins
	Longest   time.Duration // the longest wait before a run begins
	Preview   time.Duration // the longest time for Terraform's plan
	Straggler time.Duration // the time without progress after which a run is interrupted if others wait
	Build     time.Duration // until an instance is ACTIVE whose run was interrupted
}

// Provisioner carries out orders, in each shard on its own.
type Provisioner struct {
	Config
	ctx context.Context

	lock   sync.Mutex
	shards map[string]*Shard
}

// New makes a Provisioner. When ctx ends, all runs end at once.
func New(ctx context.Context, config Config) *Provisioner {
	return &Provisioner{Config: config, ctx: ctx, shards: map[string]*Shard{}}
}

// Shard runs Terraform in one shard, for all waiting orders.
type Shard struct {
	*Provisioner
	name  string
	calls *batcher.Batcher[request, Result]
}

// call is an order in a run.
type call = batcher.Call[request, Result]

// most is the largest number of changes in one run of Terraform: the cost of creation grows with the square of the
// nodes in a state.
const most = 200

// In returns a shard.
func (p *Provisioner) In(shard string) *Shard {
	p.lock.Lock()
	defer p.lock.Unlock()
	s, ok := p.shards[shard]
	if !ok {
		s = &Shard{Provisioner: p, name: shard}
		s.calls = batcher.New(batcher.Config{
			Quiet: p.Timing.Quiet, Longest: p.Timing.Longest, Most: most, Under: p.Under, Expected: p.Expected,
		}, s.run)
		p.shards[shard] = s
	}
	return s
}

// Do returns the result of an order. If ctx ends first, it returns the cause; a run may continue with the order. Other
// goroutines call tell with the events, also after Do has returned; it must not block.
func (s *Shard) Do(ctx context.Context, order Order, tell func(Event)) (Result, error) {
	return s.calls.Do(ctx, request{Order: order, tell: tell})
}

// run is one run of Terraform. A node that is refused leaves the run with its own error, and the rest is previewed
// again, since a saved plan cannot be applied in part.
func (s *Shard) run(b *batcher.Run[request, Result]) {
	s.gather(b)
	_, deps := s.Using()
	t := &run{Shard: s, deps: deps, terraform: deps.Terraform(s.name), batch: b}
	for tries := 1; s.ctx.Err() == nil; b.More() {
		if t.once(s.ctx) {
			continue
		}
		if len(t.forget) == 0 || tries == updates || sleep.For(s.ctx, s.Timing.Poll) != nil {
			break
		}
		tries++
	}
	t.forgotten(t.failure)
}

// updates is how often Terraform runs to update its state after an interrupted run, if it fails. The callers have their
// results, so nobody else may ask for that: until the next request for the node, the state would stay behind the cloud.
const updates = 3

// gather waits for all orders that must be in the run of Shared: shared resources may refer to a node's resources.
func (s *Shard) gather(b *batcher.Run[request, Result]) {
	for s.lacks(b.Calls) {
		select {
		case <-b.Awaited():
			b.More()
		case <-time.After(s.Timing.Poll): // an order may not come after all
		case <-s.ctx.Done():
			return
		}
	}
}

// lacks reports whether an order that must be in the run of these calls may still come.
func (s *Shard) lacks(calls []*call) bool {
	for _, c := range calls {
		shared, ok := c.In.Order.(Shared)
		if !ok || shared.Awaited == nil {
			continue
		}
		for node := range shared.Awaited().All() {
			if !slices.ContainsFunc(calls, func(c *call) bool { return c.In.target() != nil && c.In.node() == node }) {
				return true
			}
		}
	}
	return false
}

// serversOfNode returns the current instances of a node in the cloud.
func (s *Shard) serversOfNode(ctx context.Context, node string) ([]reconfigure.Server, error) {
	servers, err := s.Servers(ctx, nodeset.Of(node))
	return servers[node], err
}

// run is the state of one run.
type run struct {
	*Shard
	deps      Deps
	terraform Terraform
	batch     *batcher.Run[request, Result]

	locked  time.Time   // since when another process has held the lock of the state; zero: none does
	forget  []*delivery // calls whose instance is gone, but still in the state
	failure error       // of the last run that failed as a whole
	state   reconfigure.State
	servers map[string][]reconfigure.Server
	listed  time.Time // when the servers were asked for
	unseen  error     // why the servers are unknown
}

// once makes a plan and carries it out. It returns true if work is left.
func (t *run) once(ctx context.Context) (again bool) {
	calls := t.open()
	if len(calls) == 0 && len(t.forget) == 0 {
		return false
	}
	var err error
	if t.state, err = t.terraform.State(ctx); err != nil {
		t.failAll(calls, err)
		return false
	}
	if t.letGo(ctx, calls) {
		return true
	}
	t.Found(t.state.Instances)
	if nodes := t.nodes(calls); !nodes.Empty() { // without nodes, the query would be for the whole cluster
		t.listed = time.Now()
		if t.servers, t.unseen = t.Servers(ctx, nodes); t.unseen != nil && ctx.Err() != nil {
			return false
		}
	}
	if calls = t.adoptKnown(ctx, calls); len(calls) == 0 && len(t.forget) == 0 {
		return false
	}
	plan := t.plan(calls)
	plan.KeptPorts = t.admitsPorts(ctx, plan)
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
	if t.outdated(ctx, calls) {
		if err := t.terraform.Discard(preview); err != nil {
			t.failAll(calls, err)
			return false
		}
		return true
	}
	refused := t.refuse(ctx, plan, calls)
	if len(refused) == 0 && len(t.unfinished(calls)) == len(calls) {
		return t.apply(ctx, preview, calls)
	}
	if err := t.terraform.Discard(preview); err != nil {
		t.failAll(calls, err)
		return false
	}
	t.failSome(calls, refused)
	return true
}

// letGo carries out the orders to forget an instance, and reports whether there were any.
func (t *run) letGo(ctx context.Context, calls []*call) (any bool) {
	leaving := slices.DeleteFunc(slices.Clone(calls), func(c *call) bool {
		_, forgets := c.In.Order.(Forget)
		return !forgets
	})
	if len(leaving) == 0 {
		return false
	}
	desired := maps.Clone(t.state.Desired)
	for _, c := range leaving {
		c.In.tell(Begun{Changes: true})
		c.In.enter(desired)
	}
	err := t.terraform.ForgetInstances(ctx, desired, t.nodes(leaving))
	for _, c := range leaving {
		c.Finish(Result{}, err)
	}
	return true
}

// listAge is the age from which on a list of servers is read again before an apply.
const listAge = 10 * time.Second

// outdated reads an old list of servers again after the preview, and reports whether the servers have changed. The
// preview may have waited for the lock of the state: the Terraform that had it may have made instances, and may have
// been killed before it wrote them to the state.
func (t *run) outdated(ctx context.Context, calls []*call) bool {
	nodes := t.nodes(calls)
	if nodes.Empty() || t.unseen != nil || time.Since(t.listed) < listAge {
		return false
	}
	before := t.servers
	t.listed = time.Now()
	if t.servers, t.unseen = t.Servers(ctx, nodes); t.unseen != nil {
		return false // nothing is made while the servers are unknown
	}
	ids := func(servers []reconfigure.Server) (all []string) {
		for _, s := range servers {
			all = append(all, s.ID)
		}
		slices.Sort(all)
		return all
	}
	for node := range nodes.All() {
		if !slices.Equal(ids(before[node]), ids(t.servers[node])) {
			return true
		}
	}
	return false
}

// errSilent ends a plan by Terraform that takes too long. The provider has no time limit for an answer of the cloud.
var errSilent = reconfigure.Classify(reconfigure.ClassCloud, errors.New("the plan of Terraform did not end in time: a "+
	"service of the cloud accepts calls and does not answer; ask the cloud's administrators"))

// awaitLock reports whether to try again after another process had the lock of the state: until the lock timeout. It
// records the holder of the lock, and how to release it, at once, since a killed Terraform may have left the lock.
func (t *run) awaitLock(ctx context.Context, locked error) bool {
	cluster, _ := t.Using()
	if t.locked.IsZero() {
		t.locked = time.Now()
		plans := map[int64]bool{}
		for _, c := range t.open() {
			plans[c.In.plan()] = true
		}
		t.Note(plans, fmt.Sprintf(
			"Terraform waits for at most %s: %v", cluster.Settings.LockTimeout, locked))
	}
	return time.Since(t.locked) < cluster.Settings.LockTimeout && sleep.For(ctx, t.Timing.Poll) == nil
}

// preview makes Terraform's plan, for a limited time: a hanging service must not delay later orders.
func (t *run) preview(ctx context.Context, plan reconfigure.Plan) (reconfigure.Preview, error) {
	limited, cancel := context.WithTimeoutCause(ctx, t.Timing.Preview, errSilent)
	defer cancel()
	preview, err := t.terraform.Preview(limited, plan)
	if err != nil && errors.Is(context.Cause(limited), errSilent) {
		err = errSilent
	}
	return preview, err
}

// open returns the calls without a result whose callers still wait.
func (t *run) open() []*call { return t.unfinished(t.batch.Calls) }

// nodes returns the nodes of some calls, and those that the state must forget.
func (t *run) nodes(calls []*call) nodeset.NodeSet {
	var names []string
	for _, c := range calls {
		if c.In.target() != nil {
			names = append(names, c.In.node())
		}
	}
	for _, d := range t.forget {
		names = append(names, d.call.In.node())
	}
	return nodeset.Of(names...)
}

// unfinished returns those of some calls whose callers still wait. Nothing is made for a node whose time has ended.
func (t *run) unfinished(calls []*call) []*call {
	return slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.Finished() })
}

// plan returns the plan for Terraform: the shard's whole map of nodes with the changes of the calls.
func (t *run) plan(calls []*call) reconfigure.Plan {
	plan := reconfigure.Plan{Desired: maps.Clone(t.state.Desired)}
	if plan.Desired == nil {
		plan.Desired = map[string]reconfigure.Spec{}
	}
	for _, c := range calls {
		if shared, ok := c.In.Order.(Shared); ok {
			plan.Shared = true
			t.adjust(plan.Desired, shared)
		}
	}
	for _, c := range calls {
		if c.In.target() == nil {
			continue
		}
		change := c.In.change()
		plan.Changes = append(plan.Changes, change)
		plan.Jobs = append(plan.Jobs, c.In.target().Jobs...)
		c.In.enter(plan.Desired)
	}
	for _, d := range t.forget {
		change := d.call.In.change()
		if _, changes := plan.Of(change.Node); !changes {
			plan.Changes = append(plan.Changes, change)
			d.call.In.enter(plan.Desired)
		}
	}
	slices.SortFunc(plan.Changes, func(a, b reconfigure.Change) int { return cmp.Compare(a.Node, b.Node) })
	// The shared resources are removed with the last node.
	plan.Shared = plan.Shared || t.name == reconfigure.DefaultShard && len(plan.Desired) == 0
	return plan
}

// adjust changes the map of nodes to that of the order, except for the nodes with their own orders.
func (t *run) adjust(desired map[string]reconfigure.Spec, order Shared) {
	for node := range desired {
		if _, stays := order.Desired[node]; !stays && !order.Changed.Contains(node) {
			delete(desired, node)
		}
	}
	for node, spec := range order.Desired {
		if spec.Shard == t.name && !order.Changed.Contains(node) {
			desired[node] = spec
		}
	}
}

// failAll fails the calls because the run has failed as a whole.
func (t *run) failAll(calls []*call, err error) {
	t.failure = err
	for _, c := range calls {
		c.Finish(Result{}, err)
	}
}

// failSome fails the calls of these nodes, and reports whether there were any.
func (t *run) failSome(calls []*call, failures reconfigure.Failures) (any bool) {
	for _, c := range calls {
		if c.In.target() == nil {
			continue
		}
		if err := failures[c.In.node()]; err != nil {
			c.Finish(Result{}, err)
			any = true
		}
	}
	return any
}
