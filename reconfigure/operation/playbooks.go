package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// configuring is a call of Ansible for one node.
type configuring struct {
	instance reconfigure.Instance
	node     string
	round    *round
	begun    func()               // called when a run has begun, from its goroutine
	note     func(message string) // records a message about the node, from any goroutine
}

// outcome is what a run of the playbooks returns for a node.
type outcome struct {
	seen reconfigure.Configured
	told *inventory // of the run
	sum  string     // the checksum of the inputs with which the run configured the node; empty: it is not stored
}

type configureCall = batcher.Call[configuring, outcome]

// configure runs the playbooks on the node, together with all waiting calls, and returns when this node is done. A run
// that ends without a result of the node is repeated on the same instance, with pauses that double: until the node's
// deadline, or, without one, five times. A run for every node is not repeated, since it may stop slurmctld; its caller
// sees the error.
func (o *operation) configure() error {
	o.enter(reconfigure.PhaseConfigure)
	if err := o.round.sharedReady(o.term.ctx); err != nil {
		return err
	}
	if err := o.passBarrier(); err != nil {
		return err
	}
	o.progress.admit()
	limit := tries{
		first: o.operator.timing.Pause, longest: 30 * time.Second, within: within(o.term.ctx),
		note: func(err error, pause time.Duration) {
			o.note(fmt.Sprintf("the playbooks run again in %s: %s", pause, said(err)))
		},
	}
	if limit.within == 0 {
		limit.most = 5
	}
	err := limit.retry(o.term.ctx, func(last error) (again bool, err error) {
		err = o.runPlaybooks()
		if last != nil && errors.Is(err, errLate) {
			return false, fmt.Errorf("%w: %w", err, last)
		}
		return reconfigure.ClassOf(err) == reconfigure.ClassAnsible && o.round.barrier == nil, err
	})
	if err != nil {
		return o.term.cause(err) // the operation may have ended in a pause
	}
	return nil
}

// runPlaybooks is one run.
func (o *operation) runPlaybooks() error {
	o.progress.wait(true)
	out, err := o.operator.playbooks.Do(o.term.ctx, configuring{
		instance: o.instance.Instance, node: o.change.Node, round: o.round,
		begun: func() { o.progress.wait(false) },
		note:  func(message string) { o.noteOf(reconfigure.PhaseConfigure, message) },
	})
	if err == nil {
		o.attempt.started, o.attempt.seen = true, out.seen
		o.keepSum(out)
		return nil
	}
	if errors.Is(err, errLate) {
		o.attempt.started = !o.progress.get().waiting // the playbooks may have started it
		return err                                    // not a failure of the playbooks
	}
	return byDefault(reconfigure.ClassPlaybook, o.term.cause(err))
}

// prepare starts Ansible while the instances of a round are made. A run for every node has other playbooks.
func (o *Operator) prepare(r *round) {
	cluster, deps := o.using()
	made := r.Plan.Nodes(reconfigure.Create, reconfigure.Replace)
	if deps.Prepare == nil || made.Empty() || r.barrier != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	go func() {
		select {
		case <-r.configured: // no node of the round waits for the playbooks
			cancel()
		case <-ctx.Done():
		}
	}()
	deps.Prepare(ctx, cluster)
}

// longestRun ends a run that hangs, which would delay every later one. For tasks on which a node may hang, the
// playbooks have shorter time limits.
const longestRun = time.Hour

// mostInRun is the largest number of nodes in one run that does not concern every node. It is that of the forks in
// ansible.cfg: with more hosts Ansible waits for a free fork in a loop that sleeps 0.1 ms, which takes a core.
const mostInRun = 50

// configureAll is one run of Ansible. Each node has its result as soon as the playbooks are done with it.
func (o *Operator) configureAll(r *batcher.Run[configuring, outcome]) {
	ctx, cancel := context.WithTimeout(o.ctx, longestRun)
	defer cancel()
	full := false
	if !slices.ContainsFunc(r.Calls, func(c *configureCall) bool { return c.In.round.barrier != nil }) {
		r.Limit(mostInRun)
		full = len(r.Calls) == mostInRun
	}
	cluster, deps := o.using()
	calls, extent := o.extent(ctx, cluster, r.Calls)
	if len(calls) == 0 {
		return
	}
	of, plans := map[string]*configureCall{}, map[int64]bool{}
	for _, c := range calls {
		plans[c.In.round.Number] = true
		of[c.In.node] = c
		c.In.begun()
	}
	o.noteRun(plans, reconfigure.PhaseConfigure, "Ansible: "+extent.Changed.String())
	defer closeConfigured(calls)
	defer context.AfterFunc(allGone(ctx, calls), cancel)()
	progress, ended := make(chan struct{}, 1), make(chan struct{})
	defer close(ended)
	go o.yieldWhenStuck(r, progress, ended)
	moves := func() {
		select {
		case progress <- struct{}{}:
		default:
		}
	}
	told := o.inventory(ctx, calls, extent.Addresses)
	if err := o.forgetGiven(ctx, cluster, extent); err != nil {
		for _, c := range calls {
			c.Finish(outcome{}, byDefault(reconfigure.ClassAnsible, err))
		}
		return
	}
	sums := o.forgetSums(ctx, cluster, told, of)
	from := &inventory{told}
	var done atomic.Int64
	failures, err := deps.Configurer.Configure(ctx, cluster, told, extent,
		func(node, message string) {
			if c := of[node]; c != nil {
				c.In.note(message)
				moves()
			}
		},
		func(node string, seen reconfigure.Configured, err error) {
			if c := of[node]; c != nil {
				c.Finish(outcome{seen, from, sums[node]}, err)
				if full && done.Add(1) == mostInRun/2 {
					r.Yield() // so that the forks are in use
				}
			}
			moves()
		})
	for node, c := range of {
		switch {
		case failures[node] != nil:
			c.Finish(outcome{}, failures[node])
		default:
			c.Finish(outcome{}, byDefault(reconfigure.ClassAnsible, err))
		}
	}
}

// yieldWhenStuck lets the next run begin beside one in which a node hangs: when others wait, and no node has made
// progress for a while. The runs have no node in common, and each has its own inventory. A run that concerns every node
// never yields.
func (o *Operator) yieldWhenStuck(
	r *batcher.Run[configuring, outcome], progress, ended <-chan struct{},
) {
	moved, awaited := time.Now(), r.Awaited()
	var stuck <-chan time.Time // set while others wait
	for {
		select {
		case <-awaited:
			awaited = nil
			stuck = time.After(time.Until(moved.Add(o.timing.Hung)))
		case <-progress:
			if moved = time.Now(); awaited == nil {
				stuck = time.After(o.timing.Hung)
			}
		case <-stuck:
			r.Yield()
			return
		case <-ended:
			return
		}
	}
}

// allGone returns a context that ends when no caller waits any longer, since such a run would only delay the next one.
func allGone(ctx context.Context, calls []*configureCall) context.Context {
	gone, cancel := context.WithCancel(ctx)
	go func() {
		for _, c := range calls {
			select {
			case <-c.Context().Done():
			case <-ctx.Done():
				cancel()
				return
			}
		}
		cancel()
	}()
	return gone
}

// closeConfigured tells the rounds of these calls that the run for every node has ended.
func closeConfigured(calls []*configureCall) {
	closed := map[*round]bool{}
	for _, c := range calls {
		if r := c.In.round; r.barrier != nil && !closed[r] {
			closed[r] = true
			r.closeConfigured()
		}
	}
}

// inventory returns the instances for the playbooks: none that are tainted, and none of nodes that fail or are removed.
// A node with an address and without an instance has a kept port.
func (o *Operator) inventory(
	ctx context.Context, calls []*configureCall, current bool,
) map[string]reconfigure.Instance {
	told := o.known()
	maps.DeleteFunc(told, func(_ string, i reconfigure.Instance) bool { return i.Tainted || i.ID == "" })
	for node, address := range o.addresses(ctx, calls, current) {
		if _, there := told[node]; !there {
			told[node] = reconfigure.Instance{Node: node, Address: address}
		}
	}
	for _, c := range calls {
		told[c.In.node] = c.In.instance
	}
	return told
}

// addresses returns the addresses of the nodes, also of those without an instance. If they cannot be read, that is
// noted and the run continues: the next deploy adds a name that is missing on a node.
func (o *Operator) addresses(ctx context.Context, calls []*configureCall, current bool) map[string]string {
	_, deps := o.using()
	if deps.Addresses == nil {
		return nil
	}
	addresses, err := deps.Addresses(ctx, current)
	if err != nil {
		for _, c := range calls {
			c.In.note("the addresses of the other nodes are unknown: " + err.Error())
		}
	}
	return addresses
}

// extent returns what the playbooks change. slurm.conf is left as it is if Slurm would forget a node and end its job: a
// node whose instance was left alone, or that Slurm has given to a job since the plan was made. Then only the control
// node fails.
func (o *Operator) extent(
	ctx context.Context, cluster reconfigure.Cluster, calls []*configureCall,
) ([]*configureCall, reconfigure.Extent) {
	var names []string
	extent := reconfigure.Extent{}
	var refused nodeset.NodeSet
	for _, c := range calls {
		names = append(names, c.In.node)
		r := c.In.round
		extent.Everywhere = extent.Everywhere || r.Plan.Everywhere
		extent.Conf = cmp.Or(extent.Conf, r.Plan.Conf)
		extent.Addresses = extent.Addresses || r.barrier != nil
		refused = refused.Union(r.leftAlone())
	}
	extent.Changed = nodeset.Of(names...)
	extent.Addresses = extent.Addresses || cluster.ChangesAddresses(extent.Changed)
	extent.Apart = o.booting().Difference(extent.Changed)
	if !extent.Everywhere {
		return calls, extent
	}
	forgotten := refused.Union(o.givenToJobs(ctx)).Difference(cluster.Nodes())
	if forgotten.Empty() {
		return calls, extent
	}
	var rest []*configureCall
	for _, c := range calls {
		if c.In.node != cluster.Control.Name {
			rest = append(rest, c)
			continue
		}
		c.Finish(
			outcome{},
			fmt.Errorf("slurm.conf is left as it is: without %s, on which a job may run, Slurm would end that job", forgotten),
		)
	}
	closeConfigured(calls)
	extent.Everywhere, extent.Changed = false, extent.Changed.Difference(nodeset.Of(cluster.Control.Name))
	return rest, extent
}

// givenToJobs returns the nodes that Slurm has given to jobs. An error of Slurm is ignored, since the run may be there
// to repair Slurm.
func (o *Operator) givenToJobs(ctx context.Context) nodeset.NodeSet {
	states, err := o.statesOf(ctx, nodeset.NodeSet{})
	if err != nil {
		return nodeset.NodeSet{}
	}
	return nodeset.Collect(maps.Keys(states)).Where(func(node string) bool { return states[node].GivenToJob() })
}
