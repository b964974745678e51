package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// provision previews, passes the fence, looks once more for jobs, for instances that Terraform does not know and for room, and applies what was previewed. A node
// that cannot come along, because it got a job in the meantime for instance, leaves the plan, and the rest is previewed afresh: a saved plan cannot be applied in
// part. So do those whose turn did not come because another node failed: Terraform makes no instance as long as a port of any node cannot be made.
func (b *batch) provision(ctx context.Context, _ nodeset.NodeSet) error {
	defer b.learn(ctx) // that there is no room shall be known before the others are configured
	for {
		plan := b.remaining()
		if !plan.Provisions() {
			return nil
		}
		b.note(ctx, "", "Terraform plans "+plan.String())
		var (
			preview reconfigure.Preview
			err     error
		)
		b.minded(ctx, plan.Nodes(), reconfigure.ClassOther, func() {}, func() {
			preview, err = b.Provisioner.Preview(ctx, plan)
		})
		if bad := (*reconfigure.Unplannable)(nil); errors.As(err, &bad) && b.ends(ctx, bad.Failures) {
			continue
		}
		if err != nil {
			return err
		}
		if !b.setAside(ctx, plan) {
			if again, err := b.apply(ctx, preview); err != nil || !again {
				return err
			}
			continue
		}
		if err := b.Provisioner.Discard(preview); err != nil {
			return err
		}
	}
}

// setAside ends the way of nodes that must not be touched, that there is no room for, or that are too late by now, and tells whether there are any. The room is looked
// at last, since the sweep makes some.
func (b *batch) setAside(ctx context.Context, plan reconfigure.Plan) bool {
	busy := b.guard(ctx, plan, reconfigure.Replace, reconfigure.Remove)
	if len(busy) == 0 {
		busy = b.sweep(ctx, plan)
	}
	if len(busy) > 0 {
		b.hold(ctx, busy)
		return true
	}
	if crowded := b.crowdedOut(ctx, plan); len(crowded) > 0 {
		b.crowd(ctx, crowded)
		return true
	}
	// The sweep may have taken minutes.
	busy = b.guard(ctx, plan, reconfigure.Replace, reconfigure.Remove)
	b.hold(ctx, busy)
	late := b.expired(plan.Nodes(), time.Now())
	b.touched = b.touched.Union(late) // of an earlier try there may be something
	b.failAll(ctx, late, errLate)
	return len(busy) > 0 || !late.Empty()
}

// ends ends the way of the nodes that failed, and tells whether there were any on their way.
func (b *batch) ends(ctx context.Context, failures reconfigure.Failures) bool {
	before := b.left().Len()
	b.fail(ctx, failures)
	return b.left().Len() < before
}

// remaining is the plan less the nodes whose way has ended, and less what was carried out already.
func (b *batch) remaining() reconfigure.Plan {
	ended := b.plan.Nodes().Difference(b.left())
	rest := b.plan.Without(ended, b.before)
	rest.Changes = slices.DeleteFunc(rest.Changes, func(c reconfigure.Change) bool { return b.provisioned.Contains(c.Node) })
	return rest
}

// apply carries out a preview, and tells whether there are nodes left whose turn did not come.
func (b *batch) apply(ctx context.Context, preview reconfigure.Preview) (again bool, err error) {
	b.touched = b.touched.Union(preview.Plan.Nodes(reconfigure.Create, reconfigure.Replace))
	b.fresh = b.fresh.Union(renewed(preview))
	var failed reconfigure.Failures
	// Terraform is not ended for those that are too late: nobody would know then what became of the others.
	b.minded(ctx, preview.Plan.Nodes(), reconfigure.ClassBoot, func() {}, func() {
		failed, err = b.Provisioner.Apply(ctx, preview, b.watch(ctx))
	})
	if err != nil {
		return false, err
	}
	untried := withoutUntried(failed)
	failed = b.explained(ctx, failed)
	spared := b.crowd(ctx, failed)
	b.provisioned = b.provisioned.Union(preview.Plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Remove).Difference(untried))
	if err := b.find(ctx); err != nil {
		return false, err
	}
	b.vacate(ctx, spared)
	return !untried.Empty(), nil
}

// withoutUntried takes the nodes out of the failures whose turn did not come, unless they are all there is: then nobody is to blame, and to try again would go on
// for ever.
func withoutUntried(failed reconfigure.Failures) nodeset.NodeSet {
	untried := failed.Nodes().Where(func(node string) bool { return errors.Is(failed[node], reconfigure.ErrUntried) })
	if untried.Len() == len(failed) {
		return nodeset.NodeSet{}
	}
	for node := range untried.All() {
		delete(failed, node)
	}
	return untried
}

// renewed is the nodes whose instance will have a new disk, and so a new host key. One that is only resized keeps both.
func renewed(preview reconfigure.Preview) nodeset.NodeSet {
	var names []string
	for _, c := range preview.Changes {
		switch c.Effect {
		case reconfigure.EffectCreate, reconfigure.EffectReplace, reconfigure.EffectRebuild:
			names = append(names, c.Node)
		}
	}
	return nodeset.Of(names...)
}

// guard names the nodes whose instance is about to be lost or restarted by one of the actions while a job is on it, or while nobody can tell. It is asked as
// late as can be.
func (b *batch) guard(ctx context.Context, plan reconfigure.Plan, actions ...reconfigure.Action) reconfigure.Failures {
	endangered := b.endangered(plan, actions)
	if endangered.Empty() {
		return nil
	}
	states, err := b.states(ctx, b.instances)
	busy := reconfigure.Failures{}
	for node := range endangered.All() {
		switch {
		case err != nil && b.instances[node].Tainted: // hardly ever did one have a job that was not made to the end
		case err != nil:
			busy[node] = fmt.Errorf("left alone: Slurm does not answer, so nobody can tell whether a job runs on it: %w", err)
		case states[node].Running():
			busy[node] = errors.New("left alone: a job runs on it")
		case states[node].Usable():
			busy[node] = errors.New("left alone: Slurm has it in use, and may start a job on it at any moment")
		}
	}
	return busy
}

// endangered is the nodes that could have a job to lose. Tainted ones are among them: an administrator may have tainted an instance that is in use
// (`terraform taint`), and one whose creation was interrupted may have come up by itself.
func (b *batch) endangered(plan reconfigure.Plan, actions []reconfigure.Action) nodeset.NodeSet {
	return plan.Where(func(c reconfigure.Change) bool {
		_, there := b.instances[c.Node]
		return slices.Contains(actions, c.Action) && there && !c.Force
	})
}

// hold ends the way of nodes whose instance is left as it is.
func (b *batch) hold(ctx context.Context, busy reconfigure.Failures) {
	b.held = b.held.Union(busy.Nodes())
	b.fail(ctx, allByDefault(reconfigure.ClassRefused, busy))
}

// reboot restarts instances by the cloud, so that their boot is newer than the request.
func (b *batch) reboot(ctx context.Context, nodes nodeset.NodeSet) error {
	b.hold(ctx, b.guard(ctx, b.remaining(), reconfigure.Reboot))
	nodes = nodes.Intersect(b.left())
	b.touched = b.touched.Union(nodes)
	var failed reconfigure.Failures
	until := b.until(nodes)
	b.testify(ctx, b.minded(ctx, nodes, reconfigure.ClassBoot, func() {}, func() {
		failed = each(nodes, func(node string) error {
			ctx := ctx
			if end, limited := until[node]; limited {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadlineCause(ctx, end, reconfigure.Classify(reconfigure.ClassBoot, errLate))
				defer cancel()
			}
			return b.Cloud.Reboot(ctx, b.instances[node].ID)
		})
	}))
	b.failInstance(ctx, failed)
	return nil
}

// each does something for every node, some at a time.
func each(nodes nodeset.NodeSet, do func(node string) error) reconfigure.Failures {
	const atOnce = 20 // a cloud's API serves many, but not thousands at once
	var (
		lock     sync.Mutex
		wait     sync.WaitGroup
		failures = reconfigure.Failures{}
		slots    = make(chan struct{}, atOnce)
	)
	for node := range nodes.All() {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := do(node); err != nil {
				lock.Lock()
				defer lock.Unlock()
				failures[node] = err
			}
		})
	}
	wait.Wait()
	return failures
}
