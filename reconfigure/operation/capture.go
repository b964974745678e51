package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// capture makes an image of the node's disk, and then makes the node anew or removes its instance, even if there is no
// image. It may be repeated after a crash: the cloud has the image by its request, Slurm has the drain's reason since
// before the cleaning, and Terraform adopts the new instance. Until the node is made anew, its drain does not end.
func (o *operation) capture() error {
	o.enter(reconfigure.PhaseClean)
	image, err := o.image()
	switch {
	case err == nil:
		o.instance.cleaned = !o.bootedSince(image)
		said := fmt.Sprintf("image %s is %s", image.Name, image.ID)
		if o.change.Note != "" {
			said += "; " + o.change.Note
		}
		o.remark = said
	default:
		o.note(said(err))
	}
	if !o.instance.cleaned {
		return err
	}
	if problem := o.anewAfterImage(); problem != nil {
		return errors.Join(err, problem)
	}
	o.instance.cleaned = false
	o.progress.touch(false) // the node itself is in order, even without an image
	return err
}

// image returns the image, which an earlier worker may have begun.
func (o *operation) image() (reconfigure.Image, error) {
	deps := o.deps()
	ctx, cancel := context.WithTimeoutCause(o.term.ctx, o.operator.timing.Image, errImage)
	defer cancel()
	image, found, err := deps.Images.Image(ctx, o.change.Image, o.change.Requests[0])
	if err != nil {
		return image, err
	}
	if !found {
		if err := o.clean(ctx); err != nil {
			return image, err
		}
		o.enter(reconfigure.PhaseImage)
		image, err = deps.Images.CreateImage(ctx, o.instance.Instance, o.change.Image, o.change.Requests[0])
		if err != nil {
			return image, err
		}
	} else {
		o.enter(reconfigure.PhaseImage)
	}
	return deps.Images.AwaitImage(ctx, image, o.instance.Instance)
}

// errImage ends the wait for an image.
var errImage = errors.New("the image was not there in time")

// clean removes the data that belongs only to the node from its disk. Before that, it records this in Slurm.
func (o *operation) clean(ctx context.Context) error {
	if o.instance.ID == "" || o.isGone(o.instance.ID) {
		o.instance.cleaned = true // the node is made anew in any case
		return errors.New("there is no image of it, and its instance is gone")
	}
	if err := o.guard(ctx); err != nil {
		return err
	}
	if err := o.insist(ctx, func() error { return o.mark(ctx) }); err != nil {
		return fmt.Errorf("it is not cleaned, since Slurm could not be told: %w", err)
	}
	o.instance.cleaned = true
	cluster, deps := o.operator.using()
	if err := deps.Cleaner.Clean(ctx, cluster, o.instance.Instance); err != nil {
		return byDefault(reconfigure.ClassPlaybook, o.term.cause(err))
	}
	return nil
}

// mark drains the node with the reason of an image. Another user's drain stays, with its reason appended, so that its
// owner sees that the disk is cleaned before ending the drain.
func (o *operation) mark(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil || state.Unfit() {
		return err
	}
	return o.update(ctx, updateDrain, state.ReasonForImage())
}

// unmark restores the reason of another user's drain when the node is made anew or removed.
func (o *operation) unmark(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil || !state.Unfit() || !state.ForeignDrain() {
		return err
	}
	return o.update(ctx, updateDrain, state.KeptReason())
}

// bootedSince reports whether the node has been made anew since the image was begun: a slurmd cannot register on a disk
// that was cleaned.
func (o *operation) bootedSince(image reconfigure.Image) bool {
	state, err := o.state(o.term.ctx)
	return err == nil && state.Ready() && state.Boot.After(image.Created)
}

// anewAfterImage makes the node anew, or removes the instance of a cloud node and hands the node to power saving.
func (o *operation) anewAfterImage() error {
	state, err := o.state(o.term.ctx)
	if err == nil && state.Up() && !state.Unfit() { // the drain was ended, or has another reason
		if err := o.mark(o.term.ctx); err != nil {
			o.note("it could not be drained again: " + err.Error())
		}
	}
	if unwanted := err == nil && state.GivenUp() && !o.persistent(); !o.change.HandOver && !unwanted {
		return o.bringUp()
	}
	o.enter(reconfigure.PhaseApply)
	if err := o.discard(o.term.ctx); err != nil {
		return err
	}
	if err := o.insist(o.term.ctx, o.powerOff); err != nil {
		return fmt.Errorf("its instance is removed, but Slurm could not be told that it is powered down: %w", err)
	}
	return nil
}

// powerOff hands a node without an instance to power saving, and ends its drain. Another user's drain stays.
func (o *operation) powerOff() error {
	state, err := o.state(o.term.ctx)
	switch {
	case err != nil || state.ForeignDrain():
		return err
	case state.PoweringUp() || state.PoweringDown() || state.PoweredDown():
	default:
		if err := o.update(o.term.ctx, updatePowerDown, ""); err != nil {
			return err
		}
	}
	if err := o.undrainStale(o.term.ctx); err != nil {
		return err
	}
	if state, err = o.state(o.term.ctx); err != nil || !state.Ours() || state.Drained() {
		return err
	}
	return o.update(o.term.ctx, updateReason, "") // Slurm keeps it when it ends the drain with the power down
}

// insist repeats a failing command to Slurm for about a minute.
func (o *operation) insist(ctx context.Context, do func() error) error {
	limit := tries{first: o.operator.timing.Pause, longest: time.Minute, most: 6}
	return limit.retry(ctx, func(error) (again bool, err error) { return true, do() })
}
