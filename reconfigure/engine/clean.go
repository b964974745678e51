package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// tellDown sets the nodes that failed DOWN in Slurm, each with its reason, where Slurm waits for them: one that it has in use is not touched. It answers those
// that Slurm was told of.
func (b *batch) tellDown(ctx context.Context, failures reconfigure.Failures) (told nodeset.NodeSet) {
	reasons := map[string][]string{}
	for node, err := range failures {
		reasons[said(err)] = append(reasons[said(err)], node)
	}
	if len(reasons) == 0 {
		return told
	}
	slurm, err := b.scheduler(b.instances)
	if err != nil {
		return told // before there is one, nobody waits
	}
	states, err := slurm.States(ctx)
	if err != nil {
		b.note(ctx, "", "Slurm could not be told of the failures: "+err.Error())
		return told
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		b.keep(ctx, slurm, nodeset.Of(reasons[reason]...), states, reason)
		waited := b.waitedFor(nodeset.Of(reasons[reason]...), states)
		if waited.Empty() {
			continue
		}
		told = told.Union(waited) // after an error too: some of them, or all, may be DOWN then
		if err := slurm.Down(ctx, waited, reason); err != nil {
			b.note(ctx, "", "Slurm could not be told that "+waited.String()+" failed: "+err.Error())
		}
	}
	b.toldDown = b.toldDown.Union(told)
	return told
}

// keep drains the persistent nodes that Slurm would otherwise use again. It takes a node that is DOWN back when its slurmd registers, and that of one that
// failed may do so, or has never ended (slurm.conf(5), ReturnToService).
func (b *batch) keep(ctx context.Context, slurm Scheduler, failed nodeset.NodeSet, states map[string]reconfigure.NodeState, reason string) {
	renewed := b.plan.Nodes(reconfigure.Replace, reconfigure.Reboot).Intersect(b.touched)
	nodes := failed.Intersect(b.cluster.Persistent()).Where(func(node string) bool {
		s := states[node]
		return s.Rebooting() || renewed.Contains(node) && !s.Running()
	})
	if err := slurm.Drain(ctx, nodes, reason); err != nil {
		b.note(ctx, "", "Slurm could not be told to drain "+nodes.String()+": "+err.Error())
	}
}

// waitedFor is the nodes that Slurm powers up or reboots, those that were to come up for us and are not there for it, and those that a worker of ours set down
// which then died: nobody else hands them back.
func (b *batch) waitedFor(nodes nodeset.NodeSet, states map[string]reconfigure.NodeState) nodeset.NodeSet {
	expected := b.plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot)
	return nodes.Where(func(node string) bool {
		s, known := states[node]
		absent := known && expected.Contains(node) && !s.Ready() && !s.Running()
		drained := known && expected.Contains(node) && b.touched.Contains(node) && s.Drained() && !s.Running() // no job can start there
		given := s.Down() && s.Ours()
		return absent || drained || given || s.Rebooting() || s.PoweringUp()
	})
}

// clean removes what is left of the nodes that failed, so that nothing half made is kept or paid for, and hands the cloud nodes back to Slurm. Persistent
// nodes and the control node keep an instance that was made to the end: somebody may want to look at it. Slurm goes on waiting for the nodes that are to be tried once
// more.
func (b *batch) clean(ctx context.Context) {
	if !b.touched.Difference(b.left()).Empty() {
		b.clear(ctx)
	}
	b.reconsider(ctx)
	back := b.toldDown.Difference(b.cluster.Persistent())
	if err := b.handBack(ctx, back); err != nil {
		b.note(ctx, "", "Slurm could not be given "+back.String()+" back: "+err.Error())
	}
}

// clear has Terraform remove what is left, when it is this batch's turn with it.
func (b *batch) clear(ctx context.Context) {
	var (
		done func()
		err  error
	)
	b.minded(ctx, nodeset.NodeSet{}, reconfigure.ClassOther, func() {}, func() { done, err = b.Common.Terraform(ctx) })
	if err != nil {
		b.note(ctx, "", "what is left of the nodes that failed could not be removed: "+err.Error())
		return
	}
	defer done()
	if err := b.find(ctx); err != nil {
		b.instances = b.Common.known()
	}
	left := b.leftovers()
	if left.Empty() {
		return
	}
	// As long as Terraform knows a part of a node it is certain that it was about to make the rest; so that part stays where the rest may be there still.
	stay := b.sweep(ctx, b.plan.Without(b.plan.Nodes().Difference(left), b.before))
	for node, err := range stay {
		b.note(ctx, node, err.Error())
	}
	b.remove(ctx, left.Difference(stay.Nodes().Where(func(node string) bool { return b.instances[node].ID == "" })))
	_ = b.find(ctx) // a run of the playbooks that does not know what is gone fails to reach it, and goes on
}

// handBack has Slurm power nodes down. Where slurmd came up after all, a job may be on the node by now (slurm.conf(5), ReturnToService): it is in use again.
func (b *batch) handBack(ctx context.Context, nodes nodeset.NodeSet) error {
	if nodes.Empty() {
		return nil
	}
	slurm, states, err := b.asked(ctx)
	if err != nil {
		return err
	}
	return slurm.PowerDown(ctx, nodes.Where(func(node string) bool { return !states[node].Running() }))
}

// asked is Slurm, and what it says of all nodes at this moment.
func (b *batch) asked(ctx context.Context) (Scheduler, map[string]reconfigure.NodeState, error) {
	slurm, err := b.scheduler(b.instances)
	if err != nil {
		return nil, nil, err
	}
	states, err := slurm.States(ctx)
	return slurm, states, err
}

// leftovers is the failed nodes of which something may be left that nobody wants. One that the fence or the guard held back has nothing to clean.
func (b *batch) leftovers() nodeset.NodeSet {
	persistent := b.cluster.Persistent().Union(nodeset.Of(b.cluster.Control.Name))
	return b.touched.Difference(b.left()).Where(func(node string) bool {
		instance, there := b.instances[node]
		whole := there && !instance.Tainted
		return !(whole && persistent.Contains(node))
	})
}

// remove has Terraform remove instances, but those that got a job in the meantime: a node that failed our checks may be good enough for Slurm.
func (b *batch) remove(ctx context.Context, nodes nodeset.NodeSet) {
	for !nodes.Empty() {
		plan, err := b.removal(ctx, nodes)
		var preview reconfigure.Preview
		if err == nil {
			preview, err = b.Provisioner.Preview(ctx, plan)
		}
		if err != nil {
			b.note(ctx, "", "what is left of "+nodes.String()+" could not be removed: "+err.Error())
			return
		}
		busy := b.guard(ctx, plan, reconfigure.Remove)
		if len(busy) == 0 {
			b.applyRemoval(ctx, nodes, preview)
			return
		}
		for node, err := range busy {
			b.note(ctx, node, err.Error())
			nodes = nodes.Difference(nodeset.Of(node))
		}
	}
}

// removal plans that nothing of the nodes stays.
func (b *batch) removal(ctx context.Context, nodes nodeset.NodeSet) (reconfigure.Plan, error) {
	desired, err := b.Provisioner.Desired(ctx)
	if err != nil {
		return reconfigure.Plan{}, err
	}
	plan := reconfigure.Plan{Desired: maps.Clone(desired)}
	for node := range nodes.All() {
		change, _ := b.plan.Of(node)
		plan.Changes = append(plan.Changes, reconfigure.Change{Node: node, Action: reconfigure.Remove, Reason: "it failed", Requests: change.Requests})
		was := plan.Desired[node]
		delete(plan.Desired, node)
		if port, kept := b.cluster.WithoutInstance(node, was); kept {
			plan.Desired[node] = port
		}
	}
	plan.Shared = len(plan.Desired) == 0 // what the nodes share goes with the last of them
	return plan, nil
}

func (b *batch) applyRemoval(ctx context.Context, nodes nodeset.NodeSet, preview reconfigure.Preview) {
	// The steps are not told: that the node failed, and why, shall stay the last that is known of it.
	failed, err := b.Provisioner.Apply(ctx, preview, func(string, string) {})
	switch {
	case err != nil:
		b.note(ctx, "", "what is left of "+nodes.String()+" could not be removed: "+err.Error())
	case len(failed) == 0:
		b.note(ctx, "", "what was left of "+nodes.String()+" is removed")
	}
	for node, err := range failed {
		b.note(ctx, node, "what is left of it could not be removed: "+err.Error())
	}
}
