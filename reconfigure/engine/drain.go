package engine

import (
	"context"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// drain has Slurm start no more jobs on nodes. The change's reason says what for.
func (b *batch) drain(ctx context.Context, nodes nodeset.NodeSet) error {
	slurm, err := b.scheduler(b.instances)
	if err != nil {
		return err
	}
	purposes := map[string][]string{}
	for node := range nodes.All() {
		change, _ := b.plan.Of(node)
		purposes[change.Reason] = append(purposes[change.Reason], node)
	}
	for purpose, names := range purposes {
		if err := slurm.Drain(ctx, nodeset.Of(names...), purpose); err != nil {
			b.undrained(ctx, slurm, nodeset.Of(names...), err)
		}
	}
	return nil
}

// undrained fails the nodes that could not be drained. The error is of them all, or the answer was lost, and some may be drained. Where nobody can tell, they are
// waited for as if they were: the next look drains those that are not.
func (b *batch) undrained(ctx context.Context, slurm Scheduler, nodes nodeset.NodeSet, err error) {
	states, silence := slurm.States(ctx)
	if silence != nil {
		b.note(ctx, "", nodes.String()+" may not be drained: "+err.Error())
		return
	}
	failures := reconfigure.Failures{}
	for node := range nodes.All() {
		if !states[node].Drained() {
			failures[node] = fmt.Errorf("it could not be drained: %w", err)
		}
	}
	b.fail(ctx, failures)
}

// undrain takes drains of ours back that have lost their purpose.
func (b *batch) undrain(ctx context.Context, nodes nodeset.NodeSet) error {
	if err := b.undrainStale(ctx, nodes); err != nil {
		b.failAll(ctx, nodes, fmt.Errorf("its drain could not be taken back: %w", err))
	}
	return nil
}

// release has Slurm use the nodes again that were drained for a change which has come to its end, also when it was not made: but not a persistent node on
// which it went wrong.
func (b *batch) release(ctx context.Context) {
	nodes := b.plan.Where(func(c reconfigure.Change) bool { return c.Undrain }).Difference(b.broken())
	if err := b.undrainStale(ctx, nodes); err != nil {
		b.note(ctx, "", "the drain of "+nodes.String()+" could not be taken back: "+err.Error())
	}
}

// handOver has power saving take the nodes over that were persistent and whose instance is gone. Slurm has read that they are cloud nodes by now, but believes
// that they are up. They stay drained until they are down: a job must not be sent to where nothing is. Slurm 22.05 ends the drain by itself then; releases that
// do not are told to.
func (b *batch) handOver(ctx context.Context) {
	leaving := b.plan.Where(func(c reconfigure.Change) bool { return c.HandOver }).Intersect(b.left())
	nodes, err := b.clouds(ctx, leaving)
	if err == nil {
		err = b.handBack(ctx, nodes)
	}
	if err == nil {
		err = b.undrainStale(ctx, nodes)
	}
	if err != nil {
		b.note(ctx, "", "Slurm could not be told that "+leaving.String()+" is powered down: "+err.Error())
	}
}

// clouds is those of the nodes that Slurm has as cloud nodes. Where slurmctld did not take its new configuration they are not, and another resize has to come.
func (b *batch) clouds(ctx context.Context, nodes nodeset.NodeSet) (nodeset.NodeSet, error) {
	if nodes.Empty() {
		return nodes, nil
	}
	_, states, err := b.asked(ctx)
	return nodes.Where(func(node string) bool { return states[node].Cloud() }), err
}

// broken is the persistent nodes that were touched, and failed.
func (b *batch) broken() nodeset.NodeSet {
	failed := b.touched.Where(func(node string) bool { return b.verdicts[node].Status == reconfigure.StatusFailed })
	return failed.Intersect(b.cluster.Persistent())
}

// undrainStale looks once more whose drain it is: somebody may have drained the node for a reason of his own. Slurm leaves the reason of its reboot as it was.
func (b *batch) undrainStale(ctx context.Context, nodes nodeset.NodeSet) error {
	if nodes.Empty() {
		return nil
	}
	slurm, states, err := b.asked(ctx)
	if err != nil {
		return err
	}
	stale := nodes.Where(func(node string) bool {
		s := states[node]
		return s.Drained() && (s.Ours() || b.was[node].Rebooting() && s.Reason == b.was[node].Reason)
	})
	return slurm.Undrain(ctx, stale)
}
