package operation

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// shared is the order of Terraform's work for a round that is Shared. The shared resources are made before the other
// shards, which refer to them, and removed after them. The nodes of their own shard share their run.
type shared struct {
	lock    sync.Mutex
	here    map[string]bool // nodes of the default shard that are not provisioned yet
	there   map[string]bool // nodes of other shards
	destroy bool
	done    chan struct{} // closed when the shared resources are as planned, or err is set
	err     error
	ports   chan struct{} // closed when the kept ports of the other shards are made, or have failed
	rest    chan struct{} // closed when the other shards are done
}

func newShared(operations []*operation, destroy bool) *shared {
	s := &shared{
		here: map[string]bool{}, there: map[string]bool{}, destroy: destroy, done: make(chan struct{}),
		ports: make(chan struct{}), rest: make(chan struct{}),
	}
	for _, o := range operations {
		switch {
		case !o.change.Action.Provisions():
		case o.shard() == reconfigure.DefaultShard:
			s.here[o.change.Node] = true
		default:
			s.there[o.change.Node] = true
		}
	}
	if len(s.there) == 0 {
		close(s.rest)
	}
	return s
}

// turn waits until Terraform may run for a node.
func (r *round) turn(ctx context.Context, o *operation) error {
	s := r.shared
	if s == nil {
		return nil
	}
	var before <-chan struct{}
	switch first := o.shard() == reconfigure.DefaultShard; {
	case first && s.destroy:
		before = s.rest
	case !first && !s.destroy:
		before = s.done
	default:
		return nil
	}
	select {
	case <-before:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.destroy {
		return nil
	}
	return s.err
}

// provisioned records that Terraform's first work for a node has ended, or is not needed.
func (r *round) provisioned(o *operation) {
	s := r.shared
	if s == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.here, o.change.Node)
	if s.there[o.change.Node] {
		if delete(s.there, o.change.Node); len(s.there) == 0 {
			close(s.rest)
		}
	}
}

// awaited returns the nodes of the default shard that are not provisioned yet.
func (s *shared) awaited() nodeset.NodeSet {
	s.lock.Lock()
	defer s.lock.Unlock()
	return nodeset.Collect(maps.Keys(s.here))
}

// askShared has Terraform carry out the round's order for the shared resources in a shard.
func (o *Operator) askShared(r *round, shard string) error {
	order := provision.Shared{Plan: r.Number, Desired: r.Plan.Desired, Changed: r.Plan.Nodes()}
	if shard == reconfigure.DefaultShard {
		order.Awaited = r.shared.awaited
	}
	_, err := o.provisioner.In(shard).Do(o.ctx, order, func(provision.Event) {})
	return err
}

// provisionShared lets Terraform make, change or remove the shared resources.
func (o *Operator) provisionShared(r *round) {
	if !r.shared.destroy {
		r.shared.err = o.askShared(r, reconfigure.DefaultShard)
		close(r.shared.done)
		if r.shared.err == nil {
			o.provisionOthers(r)
		}
		close(r.shared.ports)
		return
	}
	select {
	case <-r.shared.rest:
	case <-o.ctx.Done():
		return
	}
	o.provisionOthers(r)
	r.shared.err = o.askShared(r, reconfigure.DefaultShard)
	close(r.shared.done)
}

// provisionOthers changes the other shards as planned, except for the round's nodes: their kept ports.
func (o *Operator) provisionOthers(r *round) {
	var wait sync.WaitGroup
	both := map[string]reconfigure.Spec{}
	maps.Copy(both, r.Seen.Desired)
	maps.Copy(both, r.Plan.Desired)
	for _, shard := range reconfigure.Shards(both) {
		if shard != reconfigure.DefaultShard {
			wait.Go(func() {
				if err := o.askShared(r, shard); err != nil && r.shared.err == nil {
					o.noteRound(r, "the ports of workspace "+shard+" are not as declared: "+err.Error())
				}
			})
		}
	}
	wait.Wait()
}

// noteRound records a message about a whole plan.
func (o *Operator) noteRound(r *round, message string) {
	o.noteRun(map[int64]bool{r.Number: true}, reconfigure.PhaseApply, message)
}

// noteRun records a message about a run, once for each plan that it serves, with the same time.
func (o *Operator) noteRun(plans map[int64]bool, phase reconfigure.Phase, message string) {
	_, deps := o.using()
	now := time.Now()
	for number := range plans {
		deps.Recorder.Record(reconfigure.Event{
			Time: now, Plan: number, Phase: phase, Level: reconfigure.Note, Message: message,
		})
	}
}

// sharedReady waits for the shared resources.
func (r *round) sharedReady(ctx context.Context) error {
	if r.shared == nil || r.shared.destroy {
		return nil
	}
	select {
	case <-r.shared.ports: // every node needs all addresses
		return r.shared.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave records that a node's instance was left as it is, because of a job.
func (r *round) leave(node string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.left = r.left.Union(nodeset.Of(node))
}

func (r *round) leftAlone() nodeset.NodeSet {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.left
}

// barrier lets the nodes of a round that concerns every node wait for one another before they are configured, since
// slurm.conf changes on all of them at once.
type barrier struct {
	lock    sync.Mutex
	waiting map[string]bool // nodes that have neither arrived nor left
	open    chan struct{}
}

func newBarrier(operations []*operation) *barrier {
	b := &barrier{waiting: map[string]bool{}, open: make(chan struct{})}
	for _, o := range operations {
		if o.change.Action != reconfigure.Drain && o.change.Action != reconfigure.Undrain {
			b.waiting[o.change.Node] = true
		}
	}
	if len(b.waiting) == 0 {
		close(b.open)
	}
	return b
}

// pass records that a node has arrived, or has left.
func (b *barrier) pass(node string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if !b.waiting[node] {
		return
	}
	if delete(b.waiting, node); len(b.waiting) == 0 {
		close(b.open)
	}
}

// leaveBarrier keeps the others from waiting for the node.
func (o *operation) leaveBarrier() {
	if o.round.barrier != nil {
		o.round.barrier.pass(o.change.Node)
	}
	o.round.provisioned(o)
}

// passBarrier waits until each node has arrived or left.
func (o *operation) passBarrier() error {
	if o.round.barrier == nil {
		return nil
	}
	o.round.barrier.pass(o.change.Node)
	select {
	case <-o.round.barrier.open:
		return nil
	case <-o.term.ctx.Done():
		return context.Cause(o.term.ctx)
	}
}

// expectConfigured counts the operations for which the playbooks run, before they begin. When all of them have ended,
// no operation waits for a run.
func (r *round) expectConfigured(operations []*operation) {
	for _, o := range operations {
		if o.configures() {
			r.configures++
		}
	}
	if r.configures == 0 {
		r.closeConfigured()
	}
}

func (r *round) leaveConfigured(o *operation) {
	if !o.configures() {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.configures--; r.configures == 0 {
		r.closeConfigured()
	}
}

func (o *operation) configures() bool {
	switch o.change.Action {
	case reconfigure.Create, reconfigure.Replace, reconfigure.Start, reconfigure.Reboot, reconfigure.Boot,
		reconfigure.Configure:
		return true
	case reconfigure.Adopt:
		return o.change.Node == o.round.Cluster.Control.Name
	}
	return false
}
