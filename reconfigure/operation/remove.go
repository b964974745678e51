package operation

import (
	"context"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// remove has Terraform remove the instance. Where others have to learn of that from slurm.conf, power saving gets the node
// after them.
func (o *operation) remove() error {
	o.enter(reconfigure.PhaseApply)
	ctx, cancel := context.WithTimeoutCause(o.ctx, o.timing.Remove, fmt.Errorf("%w %s after its removal began", errStays, o.timing.Remove))
	defer cancel()
	if err := o.removal(ctx); err != nil {
		return err
	}
	o.leaveGate()
	o.settle()
	o.gone(o.change.Node)
	if !o.change.HandOver {
		return nil
	}
	select {
	case <-o.round.configured:
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
	if err := o.handOver(o.ctx); err != nil {
		o.note("Slurm could not be told that it is powered down: " + err.Error())
	}
	return nil
}

// removal retries what may pass by itself: while Nova deletes an instance in ERROR or BUILD the provider gives up on its
// state, and to delete what is gone by then succeeds.
func (o *operation) removal(ctx context.Context) error {
	wait := o.timing.Pause
	var last error
	for {
		made, err := o.ask(ctx, provision{remove: true})
		o.settled = made.settled
		refused := reconfigure.ClassOf(err) == reconfigure.ClassRefused
		if refused && last != nil { // something was tried before
			o.note(said(err))
			return last
		}
		if err == nil || refused || ctx.Err() != nil {
			return err
		}
		last = err
		o.note(fmt.Sprintf("could not be removed, tried again in %s: %s", wait, said(err)))
		if !pause(ctx, wait) {
			return err
		}
		wait *= 2
	}
}

// discard removes what an attempt has left.
func (o *operation) discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timing.Remove, errStays)
	defer cancel()
	if err := o.removal(ctx); err != nil {
		return err
	}
	o.instance, o.finished = reconfigure.Instance{}, false
	o.touched.Store(false)
	o.gone(o.change.Node)
	return nil
}

// handOver has power saving take over a node that was persistent and whose instance is gone. Slurm has read by now that it is
// a cloud node, but believes that it is up. It stays drained until it is down: a job must not be sent to where nothing is.
// Slurm 22.05 ends the drain by itself then; releases that do not are told to.
func (o *operation) handOver(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil || !state.Cloud() { // slurmctld did not take its new configuration: another resize has to come
		return err
	}
	if err := o.powerDown(ctx); err != nil {
		return err
	}
	return o.undrainStale(ctx)
}

// drain has Slurm start no more jobs on the node. The change's reason says what for. Somebody may have drained it meanwhile for
// a reason of his own, which would be lost. Where the answer is lost it is looked whether the node is drained.
func (o *operation) drain() error {
	if state, err := o.state(o.ctx); err == nil && state.Drained() {
		return nil
	}
	err := o.update(o.ctx, updateDrain, o.change.Reason)
	if err == nil {
		return nil
	}
	state, unreachable := o.state(o.ctx)
	switch {
	case unreachable != nil: // the next plan drains it if it is not
		o.note("it may not be drained: " + err.Error())
		return nil
	case state.Drained():
		return nil
	}
	return fmt.Errorf("it could not be drained: %w", err)
}

// undrain takes a drain of ours back that has lost its purpose.
func (o *operation) undrain() error {
	if err := o.undrainStale(o.ctx); err != nil {
		return fmt.Errorf("its drain could not be taken back: %w", err)
	}
	return nil
}

// undrainStale looks once more whose drain it is: somebody may have drained the node for a reason of his own. Slurm leaves
// the reason of its reboot as it was.
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
