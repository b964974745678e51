package operation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// operation carries out one planned change. Its fields belong to its own goroutine. Others only read change and round,
// which stay as they are, end the term, and use progress.
type operation struct {
	operator  *Operator
	round     *round
	change    reconfigure.Change
	rejection error                 // of a node that could not be planned: only Slurm is told
	was       reconfigure.NodeState // before the plan
	term      term
	progress  progress

	phase    reconfigure.Phase
	remark   string // for the verdict, instead of the change's note
	instance instance
	attempt  attempt
	// fallback is that of the current attempt; zero: the attempt is as the change says. fallbacks are those that are
	// left.
	fallback  reconfigure.Fallback
	fallbacks []reconfigure.Fallback
	aside     string // the id of the instance that is set aside; empty: none
	stale     bool   // Slurm has a reason of ours for a node that is up
}

// attempt is the result of one attempt so far.
type attempt struct {
	life    reconfigure.Life       // of the new instance; without an id while there is none
	started bool                   // slurmd was started, and may register at any moment: there is no further attempt
	seen    reconfigure.Configured // by the playbooks
}

// run carries out the change, and returns the verdict; false if the operator has ended before.
func (o *operation) run() (v reconfigure.Verdict, ended bool) {
	o.probe()
	err := o.rejection
	if err == nil {
		err = o.act()
	}
	if o.operator.ctx.Err() != nil {
		return v, false
	}
	v = o.verdict(err)
	o.count(v, err)
	told := toldNothing
	if err != nil {
		told = o.fail(err)
	}
	o.finish(err, told)
	return v, o.operator.ctx.Err() == nil
}

// act does the change's action.
func (o *operation) act() error {
	switch o.change.Action {
	case reconfigure.Create, reconfigure.Replace:
		return o.create()
	case reconfigure.Reboot:
		return o.reboot()
	case reconfigure.Boot:
		return o.attempts(o.takeUp)
	case reconfigure.Start:
		return o.attempts(o.start)
	case reconfigure.Stop:
		return o.stop()
	case reconfigure.Configure:
		return o.reconfigure()
	case reconfigure.Adopt:
		return o.adopt()
	case reconfigure.Remove:
		return o.remove()
	case reconfigure.Capture:
		return o.capture()
	case reconfigure.CheckHealth:
		return o.checkHealth()
	case reconfigure.Drain:
		o.enter(reconfigure.PhaseDrain)
		return o.drain()
	case reconfigure.Undrain:
		o.enter(reconfigure.PhaseDrain)
		return o.undrain()
	}
	return fmt.Errorf("no operation is known for %q", o.change.Action)
}

// moving reports whether the node's instance is being made, removed, booted or cleaned, so that nobody should log in to
// it.
func (o *operation) moving() bool {
	switch o.change.Action {
	case reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Boot, reconfigure.Start,
		reconfigure.Stop, reconfigure.Remove, reconfigure.Capture:
		return !o.progress.get().open
	}
	return false
}

// enter records that a phase begins, and that the one before it is done.
func (o *operation) enter(phase reconfigure.Phase) {
	if o.phase != reconfigure.PhasePlan {
		o.record(o.phase, reconfigure.Done, "")
	}
	o.phase = phase
	o.record(phase, reconfigure.Begun, "")
}

// deps returns the adapters for what begins now.
func (o *operation) deps() Deps {
	_, deps := o.operator.using()
	return deps
}

// record writes nothing after the operator's end, since another worker may act on the node then.
func (o *operation) record(phase reconfigure.Phase, level reconfigure.Level, message string) {
	if o.operator.ctx.Err() != nil {
		return
	}
	o.deps().Recorder.Record(reconfigure.Event{
		Time: time.Now(), Plan: o.round.Number, Node: o.change.Node, Phase: phase, Level: level, Message: message,
	})
}

// note records a message for people.
func (o *operation) note(message string) { o.record(o.phase, reconfigure.Note, message) }

// noteOf records a message for people that belongs to a phase of a run, which may continue after the operation's phase.
// Any goroutine may call it.
func (o *operation) noteOf(phase reconfigure.Phase, message string) {
	o.record(phase, reconfigure.Note, message)
}

// verdict returns the verdict on the node.
func (o *operation) verdict(err error) reconfigure.Verdict {
	v := reconfigure.Verdict{
		Node: o.change.Node, Action: o.change.Action, Status: reconfigure.StatusDone,
		Reason: cmp.Or(o.remark, o.change.Note),
	}
	if err == nil {
		v.Reason = strings.Join(slices.DeleteFunc([]string{v.Reason, o.slowly(time.Now())},
			func(s string) bool { return s == "" }), "; ")
		return v
	}
	v.Status, v.Phase, v.Class, v.Reason = reconfigure.StatusFailed, o.phase, reconfigure.ClassOf(err), err.Error()
	refusal := (*reconfigure.Refusal)(nil)
	switch {
	case o.rejection != nil:
		v.Status = reconfigure.StatusRejected
		if v.Class == reconfigure.ClassOther {
			v.Class = ""
		}
	case errors.As(err, &refusal) && !o.progress.get().touched && !o.instance.cleaned: // else a first half was done
		v.Status = reconfigure.StatusRefused
	}
	return v
}

// slowly returns, for a node on which packages were installed, how long that took and how to avoid it.
func (o *operation) slowly(now time.Time) string {
	installing := o.attempt.seen.Installing.Round(time.Second)
	if o.attempt.seen.Installing == 0 {
		return ""
	}
	return fmt.Sprintf("it took %s, %s of them for packages that its image lacks: `reconfigure image create %s` makes an "+
		"image that has them", now.Sub(o.term.began).Round(time.Second), installing, o.change.Node)
}

// persistent reports whether the node must always have an instance, as the control node must.
func (o *operation) persistent() bool {
	c := o.round.Cluster
	return o.change.Node == c.Control.Name || c.Persistent().Contains(o.change.Node)
}
