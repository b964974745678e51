package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// byDefault gives a phase's class to a failure without a class. The end of the node's time, or its being given up, is
// no failure of the phase.
func byDefault(class reconfigure.Class, err error) error {
	own := reconfigure.ClassOf(err) != reconfigure.ClassOther
	if own || errors.Is(err, context.Canceled) || errors.Is(err, reconfigure.ErrGivenUp) {
		return err
	}
	return reconfigure.Classify(class, err)
}

// said returns a failure for the journal.
func said(err error) string { return reconfigure.ClassOf(err).Said(err.Error()) }

// public returns a failure for Slurm.
func public(err error) string { return reconfigure.ClassOf(err).Said(reconfigure.Public(err.Error())) }

// fail records a failure, tells Slurm, which then requeues the jobs at once and not at ResumeTimeout, and comments on
// the jobs. If Slurm does not answer, that is only noted. It returns what Slurm was told.
func (o *operation) fail(err error) told {
	ctx := o.operator.ctx
	if o.rejection == nil || o.awaitedNow(ctx) {
		o.record(o.phase, reconfigure.Failed, said(err))
	}
	o.failLife(err)
	if errors.Is(err, reconfigure.ErrUnwanted) {
		return toldNothing // Slurm knows, and the node has not failed
	}
	told, problem := o.tellSlurm(ctx, public(err), reconfigure.ClassOf(err) == reconfigure.ClassUnhealthy)
	if problem != nil {
		o.note("Slurm could not be told that it failed: " + problem.Error())
	}
	if told == toldDown || told == toldUnsure {
		o.tellOwners(ctx, err)
	}
	if o.rejection == nil {
		o.collectEvidence(err)
	}
	return told
}

// told is what Slurm was told about a failed node.
type told string

const (
	toldNothing told = ""
	toldDown    told = "down"
	toldUnsure  told = "unsure" // it may have been told so: the answer was an error
	toldToKeep  told = "keep"   // nothing new, since an administrator has drained the node, to inspect it
)

func (o *operation) awaitedNow(ctx context.Context) bool {
	state, err := o.state(ctx)
	return err == nil && o.awaited(state)
}

// tellSlurm sets the node DOWN if Slurm waits for it, but not if Slurm uses it. A persistent node that Slurm would use
// again is also drained: a DOWN node returns to service when its slurmd registers (slurm.conf(5), ReturnToService), and
// the slurmd of a failed node may register, or still run. An unhealthy one is drained in any case. A drain that is not ours stays as it is: DOWN would replace
// its reason, and power saving would end it.
func (o *operation) tellSlurm(ctx context.Context, reason string, unhealthy bool) (told, error) {
	if _, err := o.operator.control(); err != nil {
		return toldNothing, nil // without a control node, no job waits
	}
	state, err := o.state(ctx)
	if err != nil {
		return toldNothing, err
	}
	if o.keeps(state) {
		o.note("Slurm is not told, since the node stays drained as it is: " + state.Reason)
		if o.instance.cleaned {
			return toldToKeep, o.mark(ctx)
		}
		return toldToKeep, nil
	}
	if o.instance.cleaned {
		reason = reconfigure.ImageReason + ": " + reason
	}
	boots := o.change.Action == reconfigure.Replace || o.change.Action.Boots()
	renewed := o.instance.cleaned || o.progress.get().touched && boots
	compute := o.change.Node != o.round.Cluster.Control.Name
	drains := o.persistent() && (state.Rebooting() || (renewed || unhealthy) && !state.Running()) ||
		unhealthy && o.change.Action == reconfigure.CheckHealth
	if compute && drains {
		err = o.update(ctx, updateDrain, reason)
	}
	if !o.awaited(state) {
		return toldNothing, err
	}
	if err = errors.Join(err, o.update(ctx, updateDown, reason)); err != nil {
		return toldUnsure, err
	}
	return toldDown, nil
}

// handBack gives a failed node back to power saving. While Slurm still powers it up, a job waits for it, and a power
// down would not requeue that job. So the node is set DOWN first if the command for that may have failed. Otherwise
// Slurm has resumed the node again, and the request for that resume follows.
func (o *operation) handBack(ctx context.Context, told told, cause error) error {
	state, err := o.state(ctx)
	if err != nil {
		return err
	}
	if state.PoweringUp() && !state.Down() {
		if told == toldDown {
			return nil
		}
		if err := o.update(ctx, updateDown, public(cause)); err != nil {
			return err // Slurm requeues the job at ResumeTimeout
		}
	}
	return o.powerDown(ctx)
}

// keeps reports whether the node has a drain that must not be changed, since it is not ours. The drain of a cloud node
// whose new instance has less than slurm.conf declares ends with the instance.
func (o *operation) keeps(s reconfigure.NodeState) bool {
	goes := s.Misfit() && !o.was.ForeignDrain() && !o.persistent()
	return s.ForeignDrain() && !goes
}

// awaited reports whether Slurm powers up or reboots the node, whether it failed to come up for us, or whether an
// earlier worker set it DOWN and died before it handed the node back. It is not awaited if Slurm already powers it
// down.
func (o *operation) awaited(s reconfigure.NodeState) bool {
	if poweredDownSince(o.was, s) {
		return false
	}
	known := s.Node != ""
	a := o.change.Action
	expected := a == reconfigure.Create || a == reconfigure.Replace || a.Boots()
	absent := known && expected && !s.Ready() && !s.Running()
	drained := known && expected && o.progress.get().touched && s.Drained() && !s.Running() // no job can start there
	return absent || drained || s.Down() && s.Ours() || s.Rebooting() || s.PoweringUp()
}

// tellOwners comments on the jobs that waited for the node, since Slurm requeues them without a reason.
func (o *operation) tellOwners(ctx context.Context, err error) {
	jobs := jobsOf(o)
	if len(jobs) == 0 {
		return
	}
	if _, problem := o.operator.notices.Do(ctx, jobNotice{jobs, notice(err)}); problem != nil {
		o.note("the owners of the jobs that wait could not be told: " + problem.Error())
	}
}

// notice returns the comment on a failure, for a job's owner. The class at the end is for an administrator.
func notice(err error) string {
	class := reconfigure.ClassOf(err)
	return fmt.Sprintf(
		"a node for this job did not come: %s. The job waits for its next turn. (%s)", class.ForOwner(), class,
	)
}

// finish removes the remains of a failed node, so that no unfinished instance costs money, hands a cloud node back to
// Slurm, and ends a drain that is no longer needed. A persistent node, the control node and a node that an
// administrator has drained keep a finished instance, so that an administrator can inspect it.
func (o *operation) finish(err error, told told) {
	ctx, good := o.operator.ctx, err == nil
	if good {
		o.record(o.phase, reconfigure.Done, "")
	}
	o.phase = reconfigure.PhaseReport
	keeps := (o.persistent() || told == toldToKeep) && o.instance.finished
	if !good && (o.progress.get().touched || o.leftOver(err)) && !keeps {
		if err := o.discard(ctx); err != nil {
			o.note("what is left of it could not be removed: " + err.Error())
		}
	}
	defer func() {
		o.settle() // otherwise the next plan may see an instance that Terraform has not finished yet
		if o.instance.origin == originRemoved {
			o.operator.gone(o.change.Node)
		}
	}()
	if (told == toldDown || told == toldUnsure) && !o.persistent() {
		if err := o.handBack(ctx, told, err); err != nil {
			o.note("Slurm could not be given it back: " + err.Error())
		}
	}
	if good && o.stale {
		if err := o.update(ctx, updateReason, ""); err != nil {
			o.note("the reason of its last failure could not be cleared: " + err.Error())
		}
	}
	broken := !good && (o.progress.get().touched && o.persistent() || o.instance.cleaned)
	if o.change.Undrain && !broken {
		if err := o.undrainStale(ctx); err != nil {
			o.note("its drain could not be taken back: " + err.Error())
		}
	}
	renewed := o.change.Action == reconfigure.Capture ||
		o.was.Unfit() && (o.change.Action == reconfigure.Create || o.change.Action == reconfigure.Replace)
	if renewed && !broken {
		if err := o.unmark(ctx); err != nil {
			o.note("the reason of its drain still says that its disk is cleaned: " + err.Error())
		}
	}
}

// leftOver reports whether an interrupted earlier run has left something that this one was to complete.
func (o *operation) leftOver(err error) bool {
	seen, node := o.round.Seen, o.change.Node
	instance, there := seen.Instances[node]
	makes := o.change.Action == reconfigure.Create || o.change.Action == reconfigure.Replace
	unfinished := seen.Desired[node].HasInstance() && !there || there && (instance.Tainted || instance.ID == "")
	return makes && unfinished && reconfigure.ClassOf(err) != reconfigure.ClassRefused
}

// collectEvidence stores evidence about a failed node: the output of the task, and the host and the console log of the
// instance, which is removed soon. An error is only noted.
func (o *operation) collectEvidence(err error) {
	const longest = 30 * time.Second
	ctx, cancel := context.WithTimeout(o.operator.ctx, longest)
	defer cancel()
	deps := o.deps()
	var evidence []reconfigure.Evidence
	keep := func(kind reconfigure.Witness, text string) {
		if text == "" {
			return
		}
		evidence = append(evidence, reconfigure.Evidence{
			Time: time.Now(), Plan: o.round.Number, Node: o.change.Node, Phase: o.phase, Kind: kind,
			Text: reconfigure.Tail(text, reconfigure.EvidenceLimit),
		})
	}
	keep(reconfigure.WitnessTask, reconfigure.OutputOf(err))
	booted := o.phase == reconfigure.PhaseBoot || o.phase == reconfigure.PhaseConfigure ||
		o.phase == reconfigure.PhaseVerify
	if o.instance.ID != "" && booted {
		log, problem := deps.Cloud.Console(ctx, o.instance.ID, 0)
		if problem != nil {
			o.note("its console log cannot be had: " + problem.Error())
		}
		keep(reconfigure.WitnessConsole, log)
	}
	if len(evidence) > 0 {
		_ = deps.Recorder.Keep(ctx, evidence...)
	}
	o.findHost(ctx)
}

// count adds the result to the health of the node's group. The failure of an instance that was planned before another
// one of the group came up does not count.
func (o *operation) count(v reconfigure.Verdict, err error) {
	group, ok := o.round.Cluster.GroupOf(o.change.Node)
	if !ok || v.Status == reconfigure.StatusRejected || v.Action == reconfigure.Capture {
		return
	}
	if v.Status != reconfigure.StatusDone && o.spared(v, err, group.Name) {
		return
	}
	o.health(group.Name, func(h reconfigure.Health) reconfigure.Health {
		return plan.HealthAfter(h, o.round.Seen.Time, time.Now().UTC(), []reconfigure.Verdict{v})
	})
	made := v.Action == reconfigure.Create || v.Action == reconfigure.Replace || v.Action == reconfigure.Boot
	if v.Status == reconfigure.StatusDone && made {
		o.operator.groups.cameUp(group.Name, time.Now())
	}
}

// spared reports whether a failure does not count for the group. The probe of a group ends with any verdict.
func (o *operation) spared(v reconfigure.Verdict, err error, group string) bool {
	late := v.Class.Boots() && o.operator.groups.last(group).After(o.round.Seen.Time)
	return !o.change.Probe && (late || errors.Is(err, reconfigure.ErrGivenUp))
}

// probe records at the beginning that this node is the probe of its group.
func (o *operation) probe() {
	if group, ok := o.round.Cluster.GroupOf(o.change.Node); ok && o.change.Probe {
		o.health(group.Name, func(h reconfigure.Health) reconfigure.Health {
			return h.Trying(o.change.Node, time.Now().UTC())
		})
	}
}

func (o *operation) health(group string, update func(reconfigure.Health) reconfigure.Health) {
	if err := o.deps().Health.UpdateHealth(o.operator.ctx, group, update); err != nil {
		o.note("the health of group " + group + " could not be kept: " + err.Error())
	}
}
