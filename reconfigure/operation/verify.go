package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// verify waits until Slurm and the cloud have the node as planned. Slurmd registers as soon as it has started, so the
// wait is short, and the jobs on the node wait for its end. At its end, the last answer counts.
func (o *operation) verify() error {
	o.enter(reconfigure.PhaseVerify)
	longest := o.operator.timing.Register
	if limit := o.round.Cluster.Slurm.ResumeTimeout; limit > 0 {
		longest = min(longest, limit)
	}
	ctx, cancel := context.WithTimeout(o.term.ctx, longest)
	defer cancel()
	var missing, problem error
	for begun := time.Now(); ; {
		seen, err := o.missing(ctx)
		switch {
		case errors.Is(seen, reconfigure.ErrUnwanted), errors.Is(seen, errMisfit):
			return seen
		case err == nil && seen == nil:
			return nil
		case err == nil:
			missing = seen
		case ctx.Err() == nil:
			problem = err
		}
		if sleep.For(ctx, sleep.Pause(time.Since(begun), o.operator.timing.Poll)) == nil {
			continue
		}
		if late := o.term.overtaken(o.progress.get().made); late != nil {
			return late
		}
		switch {
		case missing != nil:
			return o.term.cause(missing)
		case problem != nil:
			return o.term.cause(problem)
		}
		return context.Cause(ctx)
	}
}

// missing returns what the node still lacks; nil if it is as planned.
func (o *operation) missing(ctx context.Context) (missing, err error) {
	if o.change.Node != o.round.Cluster.Control.Name {
		state, err := o.state(ctx)
		if err != nil {
			return nil, err
		}
		o.stale = state.Ours() && !state.Drained() && !state.Down()
		persistent := o.round.Cluster.Persistent().Contains(o.change.Node)
		switch {
		case o.change.Action != reconfigure.Configure && poweredDownSince(o.was, state):
			if !state.Boot.After(o.was.Boot) {
				return reconfigure.ErrUnwanted, nil
			}
			o.note("Slurm powers it down again")
			return nil, nil
		case o.misfit(state):
			return reconfigure.Classify(reconfigure.ClassUnregistered, fmt.Errorf("%w %s", errMisfit, describe(state))), nil
		case o.round.Plan.Everywhere && state.Cloud() && persistent:
			return errors.New("slurmctld runs with an earlier slurm.conf, in which it is still a cloud node"), nil
		case !o.registered(state):
			return reconfigure.Classify(reconfigure.ClassUnregistered,
				fmt.Errorf("slurmd did not register in time: Slurm has it as %s%s", describe(state), wrongClock(o.seen.Clock))), nil
		}
	}
	servers, err := o.operator.serversOfNode(ctx, o.change.Node)
	switch {
	case err != nil && ctx.Err() == nil: // an earlier answer no longer counts
		return err, nil
	case err != nil:
		return nil, err
	}
	for _, s := range servers {
		if s.ID == o.instance.ID && s.Active() {
			o.onHost(s)
			return nil, nil
		}
	}
	return errors.New("the cloud does not have its instance as running"), nil
}

// wrongClock returns, for a clock that is this far ahead, why munge may reject its credentials; "" if the clock is not
// the reason. By default munge accepts credentials for five minutes (munged(8), --max-ttl).
func wrongClock(ahead time.Duration) string {
	const accepted = 4 * time.Minute
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	if ahead.Abs() < accepted {
		return ""
	}
	return fmt.Sprintf("; its clock is %s %s the control host's, and munge refuses credentials that are not of the last "+
		"five minutes: have its image run a time service, such as chrony", ahead.Abs().Round(time.Second), way)
}

// poweredDownSince reports whether Slurm has begun to power a node down since it was seen before. A node that was
// powered down then has registered since if its boot is newer. Slurm has given up a node that is DOWN, for example at
// ResumeTimeout.
func poweredDownSince(was, now reconfigure.NodeState) bool {
	goes := func(s reconfigure.NodeState) bool { return (s.PoweringDown() || s.PoweredDown()) && !s.PoweringUp() }
	return goes(now) && !now.Down() && !now.Running() && (!goes(was) || now.Boot.After(was.Boot))
}

// errMisfit is the failure of a node whose slurmd has registered, but to which Slurm sends no jobs.
var errMisfit = errors.New("slurmd registered with less than slurm.conf declares: Slurm has it as")

// misfit reports whether the new boot of a node has registered with too little. An earlier drain for that says nothing
// about the new boot. While slurm.conf changes everywhere, the report may refer to the old file.
func (o *operation) misfit(s reconfigure.NodeState) bool {
	before := !s.HasAny(reconfigure.NodeInvalidReg) && o.was.Drained() && o.was.OthersReason() == s.OthersReason()
	renewed := o.change.Action != reconfigure.Configure && !s.Boot.Equal(o.was.Boot)
	return renewed && !o.round.Plan.Everywhere && s.Misfit() && !before
}

// registered reports whether slurmd of the node has registered as it should. A node that was only configured may have
// been given up since. Slurm shows a drained node as idle until it notices that the node does not answer, so a
// restarted node must have a newer boot. A node that an administrator wants DOWN after a reboot (scontrol(1),
// nextstate) counts as registered.
func (o *operation) registered(s reconfigure.NodeState) bool {
	switch o.change.Action {
	case reconfigure.Configure:
		return s.Ready() || s.PoweringDown() || s.PoweredDown()
	case reconfigure.Replace, reconfigure.Reboot, reconfigure.Boot, reconfigure.Start, reconfigure.Capture:
		booted := !s.Boot.Equal(o.was.Boot) || o.taken && s.Boot.After(o.change.Since)
		down := s.Down() && !s.HasAny(reconfigure.NodeNotResponding|reconfigure.NodePoweringUp|reconfigure.NodeInvalidReg)
		return booted && (s.Ready() || down)
	default: // Slurm may not have missed the removed instance yet
		return s.Ready() && !(o.anew && s.Boot.Equal(o.was.Boot))
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
