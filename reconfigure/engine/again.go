package engine

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// try is one that has failed, and after which another one may be worth its while.
type try struct {
	err  error
	took time.Duration
}

// fits tells whether as much time again is left until the deadline.
func (t try) fits(now, deadline time.Time) bool { return !now.Add(t.took).After(deadline) }

// failInstance ends the way of nodes for what their instance did, or did not. Another one may do better: where that is worth its while Slurm is not told, and goes on
// waiting. What is known of it all is kept.
func (b *batch) failInstance(ctx context.Context, failures reconfigure.Failures) {
	now := time.Now()
	failing := reconfigure.Failures{}
	for node := range failures.Nodes().Intersect(b.left()).All() {
		failing[node] = failures[node]
		change, _ := b.plan.Of(node)
		if t := (try{failures[node], now.Sub(b.begun)}); change.Retry && ctx.Err() == nil && t.fits(now, change.Deadline) {
			b.again[node] = t
		}
	}
	b.fail(ctx, failing)
	b.testify(ctx, failing)
}

// failStarted ends the way of nodes whose slurmd was started. There is no other try with these: slurmd may register at any moment, and the job that waits for the node
// would begin on an instance that is being removed. When Slurm has been told that the node is DOWN, it does not.
func (b *batch) failStarted(ctx context.Context, failures reconfigure.Failures) {
	b.fail(ctx, failures)
	b.testify(ctx, failures)
}

// reconsider has Slurm told after all of the nodes for which another try is in vain. The next one may begin only where nothing is left of this one, and while Slurm
// waits for the node: whoever has suspended it, or given it up, is to have his way.
func (b *batch) reconsider(ctx context.Context) {
	if len(b.again) == 0 {
		return
	}
	instances := b.Common.known() // clean has just read it
	_, states, err := b.asked(ctx)
	b.stranded(ctx, instances, states)
	now := time.Now()
	b.conclude(ctx, func(node string, t try) error {
		change, _ := b.plan.Of(node)
		_, there := instances[node]
		switch {
		case err != nil:
			return err
		case there:
			return errors.New("its instance could not be removed")
		case !states[node].PoweringUp():
			return errors.New("it is not waited for by Slurm any more")
		case !t.fits(now, change.Deadline):
			return errNoTime
		}
		return nil
	})
}

// stranded has Slurm give up nodes that came up after all while their instance was being removed: it would send jobs to where nothing is.
func (b *batch) stranded(ctx context.Context, instances map[string]reconfigure.Instance, states map[string]reconfigure.NodeState) {
	failed := reconfigure.Failures{}
	for node, t := range b.again {
		if _, there := instances[node]; !there && states[node].Ready() {
			failed[node] = t.err
		}
	}
	if len(failed) == 0 {
		return
	}
	slurm, err := b.scheduler(b.instances)
	if err == nil {
		err = slurm.Down(ctx, failed.Nodes(), "its instance is gone")
	}
	if err != nil {
		b.note(ctx, "", "Slurm could not be told that "+failed.Nodes().String()+" is gone: "+err.Error())
	}
	b.toldDown = b.toldDown.Union(failed.Nodes())
}

// conclude makes failures the last word, where there is a reason for it.
func (b *batch) conclude(ctx context.Context, why func(node string, t try) error) {
	final := reconfigure.Failures{}
	for node, t := range b.again {
		if reason := why(node, t); reason != nil {
			final[node] = t.err
			b.note(ctx, node, "it is not tried once more: "+reason.Error())
		}
	}
	for node := range final {
		delete(b.again, node)
	}
	b.tell(ctx, final)
}

// minded does what takes long and cannot be ended for one node alone, and fails the nodes meanwhile whose deadline comes: Slurm must hear of that before it gives them
// up by itself. It hears of those, too, for which there is no time any more to be tried once more. None is called when the last of the nodes is lost. The work itself
// must not touch the batch.
func (b *batch) minded(ctx context.Context, nodes nodeset.NodeSet, class reconfigure.Class, none func(), work func()) (late reconfigure.Failures) {
	ctx, cancel := context.WithCancel(ctx)
	minder := make(chan struct{})
	late = reconfigure.Failures{}
	go func() {
		defer close(minder)
		for due, limited := b.soonest(nodes); limited; due, limited = b.soonest(nodes) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			b.lapse(ctx)
			failed := all(b.expired(nodes, time.Now()), reconfigure.Classify(class, errLate))
			if len(failed) == 0 {
				continue
			}
			maps.Copy(late, failed)
			b.fail(ctx, failed)
			if nodes = nodes.Difference(failed.Nodes()); nodes.Empty() {
				none()
			}
		}
	}()
	defer func() { cancel(); <-minder }()
	work()
	return late
}

// soonest is when the first of some nodes has its deadline, or the time for another try with one is over; false where there is none.
func (b *batch) soonest(nodes nodeset.NodeSet) (first time.Time, limited bool) {
	first, limited = b.due(nodes, time.Time{})
	for node, t := range b.again {
		change, _ := b.plan.Of(node)
		if over := change.Deadline.Add(time.Second - t.took); !limited || over.Before(first) {
			first, limited = over, true
		}
	}
	return first, limited
}

// lapse has Slurm told of the nodes for which there is no time any more to be tried once more: it may be long until the batch ends.
func (b *batch) lapse(ctx context.Context) {
	ctx, end := whileLeading(ctx)
	defer end()
	now := time.Now()
	b.conclude(ctx, func(node string, t try) error {
		if change, _ := b.plan.Of(node); !t.fits(now, change.Deadline) {
			return errNoTime
		}
		return nil
	})
}

// errNoTime is why a node is not tried once more that would have been.
var errNoTime = errors.New("there is not the time for it")

// errLate is why a node is given up that Slurm does not wait for any longer.
var errLate = errors.New("it was not ready before Slurm gives it up")

// due is the first deadline of nodes that is later than some time; false where there is none.
func (b *batch) due(nodes nodeset.NodeSet, after time.Time) (first time.Time, limited bool) {
	for _, c := range b.plan.Changes {
		if nodes.Contains(c.Node) && c.Deadline.After(after) && (!limited || c.Deadline.Before(first)) {
			first, limited = c.Deadline, true
		}
	}
	return first, limited
}

// expired is the nodes whose deadline has come.
func (b *batch) expired(nodes nodeset.NodeSet, now time.Time) nodeset.NodeSet {
	return nodes.Intersect(b.plan.Where(func(c reconfigure.Change) bool { return !c.Deadline.IsZero() && !now.Before(c.Deadline) }))
}

// until is when whoever waits for one of the nodes has to end that, where it has a deadline: a moment before it, so that his reason is the one that is told.
func (b *batch) until(nodes nodeset.NodeSet) map[string]time.Time {
	const moment = 2 * time.Second
	ends := map[string]time.Time{}
	for _, c := range b.plan.Changes {
		if nodes.Contains(c.Node) && !c.Deadline.IsZero() {
			ends[c.Node] = c.Deadline.Add(-moment)
		}
	}
	return ends
}
