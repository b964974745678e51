// Package operation carries out a plan by one operation for each node, which is sequential code in its own goroutine.
// An operation has an instance made, waits for SSH, has the instance configured and waits until slurmd has registered.
// It has its own deadline and retries, and tells Slurm about failures. Terraform and Ansible have one user at a time:
// they run once for all operations that wait (package batcher), and each operation gets its result as soon as that is
// known. So no operation waits for another node.
package operation

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
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Operator starts operations, and has the data that they share.
type Operator struct {
	timing      Timing
	provisioner *provision.Provisioner
	playbooks   *batcher.Batcher[configuring, outcome]
	states      *batcher.Batcher[asked, map[string]reconfigure.NodeState]
	servers     *batcher.Batcher[asked, map[string][]reconfigure.Server]
	updates     *batcher.Batcher[update, struct{}]
	notices     *batcher.Batcher[jobNotice, struct{}]
	sums        *batcher.Batcher[summing, string]

	wait   sync.WaitGroup // for everything that was started
	groups arrivals

	lock      sync.Mutex
	ctx       context.Context // the operator's own context; runs that serve several operations end with it
	deps      Deps
	cluster   reconfigure.Cluster
	instances map[string]reconfigure.Instance // their last known state from Terraform or the cloud
	noMore    map[string]bool                 // ids of instances that the cloud no longer has
	underWay  map[string]*operation           // by node
	aside     map[string][]reconfigure.Server // by node: those that are set aside, as the cloud has listed them
}

// arrivals has the time at which the last instance of each group came up.
type arrivals struct {
	lock sync.Mutex
	at   map[string]time.Time
}

func (a *arrivals) cameUp(group string, at time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.at[group] = at
}

// last returns the zero time if no instance has come up.
func (a *arrivals) last(group string) time.Time {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.at[group]
}

// New makes an operator for a cluster. When ctx ends, the operator and all that it has started end at once, without
// verdicts. If the cause is reconfigure.ErrLeaseLost, nothing more is done to the cluster.
func New(ctx context.Context, cluster reconfigure.Cluster, deps Deps, timing Timing) *Operator {
	o := &Operator{
		timing: timing, ctx: ctx, deps: deps, cluster: cluster,
		instances: map[string]reconfigure.Instance{}, noMore: map[string]bool{}, underWay: map[string]*operation{},
		aside:  map[string][]reconfigure.Server{},
		groups: arrivals{at: map[string]time.Time{}},
	}
	runs, asks, tells := o.together(timing.Quiet, timing.Longest), o.together(0, 0), o.together(atOnce, atOnce)
	o.provisioner = provision.New(ctx, provision.Config{
		Timing: provision.Timing{
			Poll: timing.Poll, Quiet: beginning, Longest: timing.Longest, Preview: timing.Preview,
			Straggler: timing.Straggler, Build: timing.Build,
		},
		Under: &o.wait, Expected: o.severalUnderWay,
		States: o.statesOf, Servers: o.serversOf, Found: o.found, NoRoom: o.giveUp,
		Using: func() (reconfigure.Cluster, provision.Deps) {
			cluster, deps := o.using()
			return cluster, provision.Deps{
				Terraform: deps.Provisioner, Cloud: deps.Cloud, Quota: deps.Quota, FreePorts: deps.FreePorts,
			}
		},
		Flush: o.flush,
		Note:  func(plans map[int64]bool, message string) { o.noteRun(plans, reconfigure.PhaseApply, message) },
	})
	runs.Expected = o.othersBoot
	o.playbooks = batcher.New(runs, o.configureAll)
	o.states = batcher.New(asks, o.askStates)
	o.servers = batcher.New(asks, o.askServers)
	o.sums = batcher.New(asks, o.sumAll)
	o.updates = batcher.New(tells, o.updateAll)
	o.notices = batcher.New(tells, o.noticeAll)
	return o
}

// together returns a batcher for whose runs Wait waits.
func (o *Operator) together(quiet, longest time.Duration) batcher.Config {
	return batcher.Config{Quiet: quiet, Longest: longest, Under: &o.wait}
}

// beginning is the time without another order after which Terraform runs. The controller has waited for requests
// already, and the operations of a plan begin together.
const beginning = 100 * time.Millisecond

// atOnce is the window for calls of Slurm, since many nodes may fail at the same time.
const atOnce = 50 * time.Millisecond

// flushing limits the wait for the journal before Terraform runs.
const flushing = 2 * time.Second

// flush makes the recorded events durable. If the worker is killed while Terraform runs, the next one continues the boot
// of a new instance only if the journal has the beginning of the operation; otherwise it boots the instance again. That
// costs no job, so Terraform also runs if the journal does not answer.
func (o *Operator) flush(ctx context.Context) {
	_, deps := o.using()
	ctx, cancel := context.WithTimeout(ctx, flushing)
	defer cancel()
	_ = deps.Recorder.Flush(ctx)
}

// Use makes everything that begins from now on use another declaration and its adapters.
func (o *Operator) Use(cluster reconfigure.Cluster, deps Deps) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.cluster, o.deps = cluster, deps
}

func (o *Operator) using() (reconfigure.Cluster, Deps) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.cluster, o.deps
}

// Round is one plan that is carried out.
type Round struct {
	Number  int64 // in the journal
	Cluster reconfigure.Cluster
	Seen    snapshot.Snapshot // from which it was planned
	Plan    reconfigure.Plan
}

// round is a Round under way.
type round struct {
	Round
	barrier    *barrier      // at which its nodes wait for one another, if it concerns every node; else nil
	shared     *shared       // the order of Terraform's work, if the plan is Shared; else nil
	configured chan struct{} // closed when the run after the barrier, or each operation, has ended
	once       sync.Once

	lock       sync.Mutex
	configures int             // the number of operations that are not configured yet
	left       nodeset.NodeSet // the nodes whose instance was left unchanged
}

func (r *round) closeConfigured() { r.once.Do(func() { close(r.configured) }) }

// Start carries out each change of a plan, and hands back to Slurm the nodes that it waits for and that could not be
// planned. It returns at once, and calls done for each node, from other goroutines. The caller MUST NOT start two
// operations for one node, nor anything beside a plan that is Shared or Everywhere.
func (o *Operator) Start(r Round, done func(reconfigure.Verdict)) {
	o.found(r.Seen.Instances)
	begun := &round{Round: r, configured: make(chan struct{})}
	var operations []*operation
	for _, c := range r.Plan.Changes {
		operations = append(operations, o.operation(begun, c))
	}
	for node, err := range awaited(r.Plan) {
		op := o.operation(begun, reconfigure.Change{Node: node})
		op.rejection = err
		operations = append(operations, op)
	}
	begun.expectConfigured(operations)
	if r.Plan.Everywhere || r.Plan.Shared {
		begun.barrier = newBarrier(operations)
	}
	if r.Plan.Shared {
		begun.shared = newShared(operations, len(r.Plan.Desired) == 0)
		o.wait.Go(func() { o.provisionShared(begun) })
	}
	o.wait.Go(func() { o.prepare(begun) })
	o.lock.Lock()
	for _, op := range operations {
		o.underWay[op.change.Node] = op
	}
	o.lock.Unlock()
	for _, op := range operations {
		o.wait.Go(func() { o.carry(op, done) })
	}
}

// Wait returns when everything that was started has ended, also runs that serve several operations.
func (o *Operator) Wait() {
	o.wait.Wait()
}

// awaited returns the nodes that Slurm waits for and that could not be planned, with the reason. A node with a change
// for another request is not among them: that operation tells Slurm.
func awaited(plan reconfigure.Plan) reconfigure.Failures {
	rejected := reconfigure.Failures{}
	for _, r := range plan.Rejected {
		if _, changes := plan.Of(r.Node); !changes && r.Awaited {
			rejected[r.Node] = reconfigure.Classify(r.Class, errors.New(r.Reason))
		}
	}
	return rejected
}

// carry runs an operation to its end.
func (o *Operator) carry(op *operation, done func(reconfigure.Verdict)) {
	defer op.term.cancel(nil)
	verdict, ended := op.run()
	op.leaveBarrier()
	op.round.leaveConfigured(op)
	o.lock.Lock()
	delete(o.underWay, op.change.Node)
	o.lock.Unlock()
	if ended {
		done(verdict)
	}
}

// operation makes the operation of a change.
func (o *Operator) operation(r *round, c reconfigure.Change) *operation {
	return &operation{
		operator: o, round: r, change: c, term: newTerm(o.ctx, c.Deadline), phase: reconfigure.PhasePlan,
		was: r.Seen.States[c.Node], fallbacks: c.Fallbacks,
		instance: instance{
			Instance: r.Seen.Instances[c.Node], origin: originFound, finished: c.Action.Boots(),
			cleaned: r.Seen.States[c.Node].Unfit(),
		},
	}
}

// found stores the instances that Terraform or the cloud has; others stay as they were known.
func (o *Operator) found(instances map[string]reconfigure.Instance) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for node, is := range instances {
		// An interrupted Terraform leaves an instance without an address until it is adopted.
		if was := o.instances[node]; is.Tainted && is.Address == "" && is.ID != "" && is.ID == was.ID {
			continue
		}
		o.instances[node] = is
	}
}

func (o *Operator) gone(node string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	delete(o.instances, node)
}

// known returns the last known instances.
func (o *Operator) known() map[string]reconfigure.Instance {
	o.lock.Lock()
	defer o.lock.Unlock()
	return maps.Clone(o.instances)
}

// control returns the control node's instance.
func (o *Operator) control() (reconfigure.Instance, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	name := o.cluster.Control.Name
	control, ok := o.instances[name]
	switch {
	case !ok:
		return control, errors.New("there is no control node yet")
	case control.Address == "":
		return control, fmt.Errorf("control node %s has no address", name)
	}
	return control, nil
}

// booting returns the nodes whose instance is being made, removed or booted.
func (o *Operator) booting() nodeset.NodeSet {
	o.lock.Lock()
	defer o.lock.Unlock()
	var names []string
	for node, op := range o.underWay {
		if op.moving() {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// severalUnderWay reports whether more than one operation is under way, so that an order of one may follow that of
// another.
func (o *Operator) severalUnderWay() bool {
	o.lock.Lock()
	defer o.lock.Unlock()
	return len(o.underWay) > 1
}

// othersBoot reports whether a node still boots whose round has nodes that wait for the playbooks. It is also true for
// a round that concerns every node, since one run must have all of its nodes.
func (o *Operator) othersBoot() bool {
	o.lock.Lock()
	defer o.lock.Unlock()
	waits := map[*round]bool{}
	for _, op := range o.underWay {
		is := op.progress.get()
		waits[op.round] = waits[op.round] || is.open && is.waiting
	}
	for _, op := range o.underWay {
		if waits[op.round] && (op.moving() || op.round.barrier != nil) {
			return true
		}
	}
	return false
}

// Suspended ends the operations of a resume for nodes that are no longer awaited. It returns at once.
func (o *Operator) Suspended(s reconfigure.Suspended) {
	o.wait.Go(func() { o.endNeedless(s) })
}

func (o *Operator) endNeedless(s reconfigure.Suspended) {
	states, err := o.statesOf(o.ctx, s.Nodes)
	if err != nil {
		states = nil // the nodes that were resumed again are known all the same
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	for node := range s.Nodes.All() {
		op := o.underWay[node]
		if op == nil || !s.Needless(node, states[node]) {
			continue
		}
		if a := op.change.Action; a == reconfigure.Create || a == reconfigure.Replace || a.Boots() {
			op.term.cancel(reconfigure.ErrUnwanted)
		}
	}
}

// giveUp ends operations of nodes that no job needs any longer, since another node of their job failed.
func (o *Operator) giveUp(refused reconfigure.Failures) {
	o.lock.Lock()
	var spare []string
	var jobs []reconfigure.Job
	for node, op := range o.underWay {
		jobs = append(jobs, jobsOf(op)...)
		if op.change.ForJobs && !op.change.Probe {
			spare = append(spare, node)
		}
	}
	slices.SortStableFunc(jobs, func(a, b reconfigure.Job) int { return cmp.Compare(a.ID, b.ID) })
	given := plan.GiveUp(o.cluster, jobs, refused, nodeset.Of(spare...).Difference(o.cluster.Persistent()))
	var operations []*operation
	var errs []error
	for node, err := range given {
		operations, errs = append(operations, o.underWay[node]), append(errs, err)
	}
	o.lock.Unlock()
	for i, op := range operations {
		op.term.cancel(errs[i])
	}
}
