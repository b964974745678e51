package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// remove lets Terraform remove the instance. If slurm.conf changes with that, the node is handed to power saving after
// the playbooks have run.
func (o *operation) remove() error {
	o.enter(reconfigure.PhaseApply)
	stays := fmt.Errorf("%w %s after its removal began", provision.ErrStays, o.operator.timing.Remove)
	ctx, cancel := context.WithTimeoutCause(o.term.ctx, o.operator.timing.Remove, stays)
	defer cancel()
	if err := o.removal(ctx); err != nil {
		return err
	}
	o.leaveBarrier()
	o.settle()
	o.removeAside()
	o.operator.gone(o.change.Node)
	if !o.change.HandOver {
		return nil
	}
	select {
	case <-o.round.configured:
	case <-o.term.ctx.Done():
		return context.Cause(o.term.ctx)
	}
	if err := o.handOver(o.term.ctx); err != nil {
		o.note("Slurm could not be told that it is powered down: " + err.Error())
	}
	return nil
}

// removal retries all failures but refusals: while the cloud deletes an instance in ERROR or BUILD, the provider may
// fail on its state, and a second removal succeeds when it is gone.
func (o *operation) removal(ctx context.Context) error {
	limit := tries{first: o.operator.timing.Pause, note: func(err error, pause time.Duration) {
		o.note(fmt.Sprintf("could not be removed, tried again in %s: %s", pause, said(err)))
	}}
	return limit.retry(ctx, func(last error) (again bool, err error) {
		removed, err := o.ask(ctx, o.removes())
		o.instance.settled = removed.Settled
		refused := reconfigure.ClassOf(err) == reconfigure.ClassRefused
		switch {
		case err == nil:
			o.endLife()
			o.removeShelved(ctx)
		case refused && last != nil:
			o.note(said(err))
			return false, last
		}
		return !refused, err
	})
}

// removeShelved removes the image that the cloud may have left, if the instance was deleted while it was shelved.
func (o *operation) removeShelved(ctx context.Context) {
	images, saves := o.deps().Cloud.(ShelvedImages)
	group, declared := o.round.Cluster.GroupOf(o.change.Node)
	shelves := declared && group.WhenIdle.Power() == reconfigure.Shelved
	if !saves || !shelves || o.instance.ID == "" {
		return
	}
	name, err := images.RemoveShelvedImage(ctx, o.instance.Instance)
	switch {
	case err != nil:
		o.remark = "an image of it, " + o.change.Node + "-shelved, may be left in the cloud: " + err.Error()
		o.note(o.remark)
	case name != "":
		o.note("the cloud had left image " + name + " of it, which is removed")
	}
}

// discard removes the remains of an attempt.
func (o *operation) discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.operator.timing.Remove, provision.ErrStays)
	defer cancel()
	if err := o.removal(ctx); err != nil {
		return err
	}
	o.gone()
	return nil
}

// gone records that the node has no instance.
func (o *operation) gone() {
	o.instance.remove()
	o.progress.touch(false)
	o.operator.gone(o.change.Node)
}

// handOver hands a formerly persistent node, whose instance is removed, to power saving. By now Slurm knows that it is
// a cloud node, but still regards it as up. The node stays drained until it is powered down, so that no job starts
// there. Slurm 22.05 ends the drain by itself then; newer releases need a command.
func (o *operation) handOver(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil || !state.Cloud() { // slurmctld has not read its new configuration: another resize is needed
		return err
	}
	if err := o.powerDown(ctx); err != nil {
		return err
	}
	return o.undrainStale(ctx)
}

// drain keeps Slurm from starting jobs on the node, for the change's reason. A node that is already drained keeps its
// reason. If the answer is lost, it checks whether the node is drained.
func (o *operation) drain() error {
	if state, err := o.state(o.term.ctx); err == nil && state.Drained() {
		return nil
	}
	err := o.update(o.term.ctx, updateDrain, o.change.Reason)
	if err == nil {
		return nil
	}
	state, unreachable := o.state(o.term.ctx)
	switch {
	case unreachable != nil: // the next plan drains it if it is not
		o.note("it may not be drained: " + err.Error())
		return nil
	case state.Drained():
		return nil
	}
	return fmt.Errorf("it could not be drained: %w", err)
}

// undrain ends a drain of ours that is no longer needed.
func (o *operation) undrain() error {
	if err := o.undrainStale(o.term.ctx); err != nil {
		return fmt.Errorf("its drain could not be taken back: %w", err)
	}
	return nil
}

// undrainStale checks again who drained the node, since an administrator may have done so meanwhile. Slurm keeps the
// reason of a reboot.
func (o *operation) undrainStale(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil {
		return err
	}
	if !state.Drained() || !state.Ours() && !(o.was.Rebooting() && state.Reason == o.was.Reason) {
		return nil
	}
	return o.update(ctx, updateUndrain, "")
}
