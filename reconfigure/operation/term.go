package operation

import (
	"context"
	"errors"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// term is the time that an operation has.
type term struct {
	ctx    context.Context // ends at the node's deadline, and when the node is given up
	cancel context.CancelCauseFunc
	began  time.Time
}

// errLate ends an operation at the time when Slurm gives the node up.
var errLate = errors.New("it was not ready before Slurm gives it up")

// newTerm begins a term now. A zero deadline is none.
func newTerm(ctx context.Context, deadline time.Time) term {
	ctx, cancel := context.WithCancelCause(ctx)
	if deadline.IsZero() {
		return term{ctx, cancel, time.Now()}
	}
	ctx, end := context.WithDeadlineCause(ctx, deadline, errLate)
	return term{ctx, func(cause error) { cancel(cause); end() }, time.Now()}
}

// cause returns why an attempt ended: the cause of the operation's end if the node was given up, since that says more
// than a cancelled context.
func (t term) cause(err error) error {
	if given := context.Cause(t.ctx); given != nil && errors.Is(given, reconfigure.ErrGivenUp) {
		return given
	}
	return err
}

// hurried reports whether most of the term had passed before the cloud had the instance, because of the control host or
// the queue for Terraform. If such an instance is late, that says nothing about its group. A zero time stands for an
// instance that the cloud does not have yet.
func (t term) hurried(made time.Time) bool {
	deadline, limited := t.ctx.Deadline()
	return made.IsZero() || !limited || made.Sub(t.began) > deadline.Sub(t.began)/2
}

// overtaken returns errLate if the term has ended and the instance, which was made at that time, had little of it; else
// nil.
func (t term) overtaken(made time.Time) error {
	if errors.Is(context.Cause(t.ctx), errLate) && t.hurried(made) {
		return errLate
	}
	return nil
}

// late classifies the end of the term. If the operation only waited for a run, or its instance had little of the term,
// the instance is not at fault.
func (t term) late(err error, at standing) error {
	if errors.Is(err, errLate) && !at.waiting && !t.hurried(at.made) {
		return reconfigure.Classify(reconfigure.ClassBoot, err)
	}
	return err
}

// within returns the time until the deadline of ctx; zero without one.
func within(ctx context.Context) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		return time.Until(deadline)
	}
	return 0
}

// left returns the time until the deadline of ctx; an hour without one.
func left(ctx context.Context) time.Duration {
	if _, limited := ctx.Deadline(); !limited {
		return time.Hour
	}
	return within(ctx)
}
