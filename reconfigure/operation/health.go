package operation

import (
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// checkHealth runs the health checks of a node that is up. The node is drained meanwhile, unless it is drained already.
// A node that does not pass stays drained, with the check's words as the reason (tellSlurm). A drain of somebody else,
// or for another purpose, stays as it is.
func (o *operation) checkHealth() error {
	o.enter(reconfigure.PhaseDrain)
	if err := o.drain(); err != nil {
		return err
	}
	state, err := o.state(o.term.ctx)
	if err == nil && state.Running() {
		err = reconfigure.Classify(reconfigure.ClassBusy, errors.New("a job has begun on it, so it is not checked"))
	}
	if err == nil {
		o.enter(reconfigure.PhaseVerify)
		err = o.deps().Starter.CheckHealth(o.term.ctx, o.instance.Instance)
	}
	if reconfigure.ClassOf(err) == reconfigure.ClassUnhealthy {
		return err
	}
	if problem := o.endCheck(); problem != nil {
		return errors.Join(err, fmt.Errorf("its drain could not be taken back: %w", problem))
	}
	return byDefault(reconfigure.ClassSSH, o.term.cause(err))
}

// endCheck ends the drain for the check, or of an earlier check that failed.
func (o *operation) endCheck() error {
	state, err := o.state(o.operator.ctx)
	if err != nil || !state.Checked() {
		return err
	}
	return o.update(o.operator.ctx, updateUndrain, "")
}
