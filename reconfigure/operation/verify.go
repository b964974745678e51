package operation

import (
	"cmp"
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
	var lacks, unknown error
	for begun := time.Now(); ; {
		check, err := o.check(ctx)
		switch {
		case err == nil && (check.lacks == nil || check.final):
			o.stale = check.stale
			return check.lacks
		case err == nil:
			lacks = check.lacks
		case ctx.Err() == nil:
			unknown = err
		}
		if sleep.For(ctx, sleep.Pause(time.Since(begun), o.operator.timing.Poll)) == nil {
			continue
		}
		if late := o.term.overtaken(o.progress.get().made); late != nil {
			return late
		}
		if last := cmp.Or(lacks, unknown); last != nil {
			return o.term.cause(last)
		}
		return context.Cause(ctx)
	}
}

// check is the result of one look at a node that comes up.
type check struct {
	lacks error // what it still lacks; nil: it is as planned
	final bool  // to wait longer does not help
	stale bool  // Slurm has a reason of ours for a node that is up
}

// check returns an error if Slurm or the cloud does not answer before ctx ends.
func (o *operation) check(ctx context.Context) (check, error) {
	stale := false
	if o.instance.ID == reconfigure.ExistingID {
		return check{}, nil // the playbooks have reached it, and it belongs to the site
	}
	if o.change.Node != o.round.Cluster.Control.Name {
		state, err := o.state(ctx)
		if err != nil {
			return check{}, err
		}
		seen := o.checkSlurm(state)
		if seen.lacks != nil || seen.final {
			return seen, nil
		}
		stale = seen.stale
	}
	servers, err := o.operator.serversOfNode(ctx, o.change.Node)
	switch {
	case err != nil && ctx.Err() == nil: // an earlier result no longer counts
		return check{lacks: err}, nil
	case err != nil:
		return check{}, err
	}
	for _, s := range servers {
		if s.ID == o.instance.ID && s.Active() {
			o.onHost(s)
			return check{stale: stale}, nil
		}
	}
	return check{lacks: errors.New("the cloud does not have its instance as running")}, nil
}

// checkSlurm checks a node's state in Slurm. A check without a lack that is final needs no look at the cloud.
func (o *operation) checkSlurm(s reconfigure.NodeState) check {
	stale := s.Ours() && !s.Drained() && !s.Down()
	persistent := o.round.Cluster.Persistent().Contains(o.change.Node)
	switch {
	case o.change.Action != reconfigure.Configure && poweredDownSince(o.was, s):
		if !s.Boot.After(o.was.Boot) {
			return check{lacks: reconfigure.ErrUnwanted, final: true}
		}
		o.note("Slurm powers it down again")
		return check{final: true, stale: stale}
	case o.misfit(s):
		return check{final: true, lacks: reconfigure.Classify(reconfigure.ClassUnregistered,
			fmt.Errorf("%w %s", errMisfit, describe(s)))}
	case o.round.Plan.Everywhere && s.Cloud() && persistent:
		return check{lacks: errors.New("slurmctld runs with an earlier slurm.conf, in which it is still a cloud node")}
	case !o.registered(s):
		return check{lacks: reconfigure.Classify(reconfigure.ClassUnregistered, fmt.Errorf(
			"slurmd did not register in time: Slurm has it as %s%s", describe(s), wrongClock(o.attempt.seen.Clock)))}
	}
	return check{stale: stale}
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
		booted := !s.Boot.Equal(o.was.Boot) || o.instance.origin == originTaken && s.Boot.After(o.change.Since)
		down := s.Down() && !s.HasAny(reconfigure.NodeNotResponding|reconfigure.NodePoweringUp|reconfigure.NodeInvalidReg)
		return booted && (s.Ready() || down)
	case reconfigure.Adopt: // if it was made anew, Slurm may not have missed the instance that is gone yet
		return s.Ready() && (o.instance.origin != originMade || !s.Boot.Equal(o.was.Boot))
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
