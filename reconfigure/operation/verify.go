package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// verify waits until Slurm and the cloud say what the plan wanted. slurmd registers as soon as it has started, so it is not
// waited for long. What counts in the end is the last look that saw anything.
func (o *operation) verify() error {
	o.enter(reconfigure.PhaseVerify)
	longest := o.timing.Register
	if limit := o.round.Cluster.Slurm.ResumeTimeout; limit > 0 {
		longest = min(longest, limit)
	}
	ctx, cancel := context.WithTimeout(o.ctx, longest)
	defer cancel()
	var missing, problem error
	for {
		seen, err := o.missing(ctx)
		switch {
		case err == nil && seen == nil:
			return nil
		case err == nil:
			missing = seen
		case ctx.Err() == nil:
			problem = err
		}
		if pause(ctx, o.timing.Poll) {
			continue
		}
		switch {
		case missing != nil:
			return o.cause(missing)
		case problem != nil:
			return o.cause(problem)
		}
		return context.Cause(ctx)
	}
}

// missing says what the node still lacks.
func (o *operation) missing(ctx context.Context) (missing, err error) {
	if o.change.Node != o.round.Cluster.Control.Name {
		state, err := o.state(ctx)
		if err != nil {
			return nil, err
		}
		persistent := o.round.Cluster.Persistent().Contains(o.change.Node)
		switch {
		case o.round.Plan.Everywhere && state.Cloud() && persistent:
			return errors.New("slurmctld goes by an earlier slurm.conf: it is a cloud node there still"), nil
		case !o.registered(state):
			return reconfigure.Classify(reconfigure.ClassUnregistered,
				fmt.Errorf("slurmd did not register in time: Slurm has it as %s", describe(state))), nil
		}
	}
	servers, err := o.serversOfNode(ctx, o.change.Node)
	switch {
	case err != nil && ctx.Err() == nil: // that it had not registered before counts no more
		return err, nil
	case err != nil:
		return nil, err
	}
	for _, s := range servers {
		if s.ID == o.instance.ID && s.Active() {
			return nil, nil
		}
	}
	return errors.New("the cloud does not have its instance as running"), nil
}

// registered reports whether Slurm has the node as it should be. One that only had to be configured may have been given up
// since. While a node is drained Slurm calls it idle for as long as it does not miss it; so what was restarted must have
// another boot than before. One that the administrator wants DOWN after a reboot (scontrol(1), nextstate) is there all the
// same.
func (o *operation) registered(s reconfigure.NodeState) bool {
	switch o.change.Action {
	case reconfigure.Configure:
		return s.Ready() || s.PoweringDown() || s.PoweredDown()
	case reconfigure.Replace, reconfigure.Reboot:
		booted := !s.Boot.Equal(o.was.Boot)
		down := s.Down() && !s.HasAny(reconfigure.NodeNotResponding|reconfigure.NodePoweringUp|reconfigure.NodeInvalidReg)
		return booted && (s.Ready() || down)
	default:
		return s.Ready()
	}
}

func describe(s reconfigure.NodeState) string {
	text := s.String()
	if text == "" {
		return "unknown"
	}
	if s.Reason != "" && !s.Ours() {
		text += " (" + s.Reason + ")"
	}
	return text
}
