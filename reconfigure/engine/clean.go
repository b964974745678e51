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
	var names []string
	for node := range failed.Intersect(b.cluster.Persistent()).All() {
		if s := states[node]; s.Rebooting() || renewed.Contains(node) && !s.Running() {
			names = append(names, node)
		}
	}
	if err := slurm.Drain(ctx, nodeset.Of(names...), reason); err != nil {
		b.note(ctx, "", "Slurm could not be told to drain "+nodeset.Of(names...).String()+": "+err.Error())
	}
}

// waitedFor is the nodes that Slurm powers up or reboots, those that were to come up for us and are not there for it, and those that a worker of ours set down
// which then died: nobody else hands them back.
func (b *batch) waitedFor(nodes nodeset.NodeSet, states map[string]reconfigure.NodeState) nodeset.NodeSet {
	expected := b.plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot)
	var names []string
	for node := range nodes.All() {
		s, known := states[node]
		absent := known && expected.Contains(node) && !s.Ready() && !s.Running()
		drained := known && expected.Contains(node) && b.touched.Contains(node) && s.Is("DRAIN") && !s.Running() // no job can start there
		given := s.Is("DOWN") && s.Ours()
		if absent || drained || given || s.Rebooting() || s.Is("POWERING_UP", "POWER_UP") {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// clean removes what is left of the nodes that failed, so that nothing half made is kept or paid for, and hands the cloud nodes back to Slurm. Persistent
// nodes and the control node keep an instance that was made to the end: somebody may want to look at it.
func (b *batch) clean(ctx context.Context) {
	if instances, err := b.Provisioner.Instances(ctx); err == nil {
		b.instances = instances
	}
	if left := b.leftovers(); !left.Empty() {
		// As long as Terraform knows a part of a node it is certain that it was about to make the rest.
		for node, err := range b.sweep(ctx, b.plan.Without(b.plan.Nodes().Difference(left), b.before)) {
			b.note(ctx, node, err.Error())
		}
		b.remove(ctx, left)
	}
	back := b.toldDown.Difference(b.cluster.Persistent())
	if err := b.handBack(ctx, back); err != nil {
		b.note(ctx, "", "Slurm could not be given "+back.String()+" back: "+err.Error())
	}
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
	var idle []string
	for node := range nodes.All() {
		if !states[node].Running() {
			idle = append(idle, node)
		}
	}
	return slurm.PowerDown(ctx, nodeset.Of(idle...))
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

func (b *batch) leftovers() nodeset.NodeSet {
	persistent := b.cluster.Persistent().Union(nodeset.Of(b.cluster.Control.Name))
	var names []string
	for node := range b.verdicts {
		if !b.touched.Contains(node) {
			continue // a node that the fence or the guard held back has nothing to clean
		}
		instance, there := b.instances[node]
		whole := there && !instance.Tainted
		if !(whole && persistent.Contains(node)) {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
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
		delete(plan.Desired, node)
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
