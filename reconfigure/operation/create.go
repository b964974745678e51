package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// create makes the node's instance, or replaces it, and brings it up.
func (o *operation) create() error { return o.attempts(o.bringUp) }

// attempts makes the first attempt, and then others, each on a fresh instance. An instance that does not come up is
// removed first. The next attempt begins if there is time for an attempt as long as the last, and if Slurm still waits.
// While the cloud has no room, the next attempt is the group's next fallback, which is no retry.
func (o *operation) attempts(first func() error) error {
	defer o.removeAside()
	try, retries := first, 0
	for {
		began := time.Now()
		err := try()
		alone := o.lacksRoomBeside(err) // the next attempt is made without the instance that is set aside
		fallsBack := !alone && o.fallsBack(err)
		if err == nil || !alone && !fallsBack && !o.retries(err, retries, time.Since(began)) {
			return err
		}
		o.failLife(err)
		o.collectEvidence(err)
		if problem := o.another(err); problem != nil {
			o.note("it is not retried: " + problem.Error())
			return err
		}
		if alone {
			o.note("tried again without the instance that was kept: " + said(err))
		} else if fallsBack {
			o.fallback, o.fallbacks = o.fallbacks[0], o.fallbacks[1:]
			flavor, where := cmp.Or(o.flavorName(o.fallback.FlavorID), o.fallback.FlavorID), ""
			if o.fallback.Zone != "" {
				where = " in zone " + o.fallback.Zone
			}
			o.note(fmt.Sprintf("tried with flavor %s%s: %s", flavor, where, said(err)))
		} else {
			retries++
			o.note("retried on a fresh instance: " + said(err))
		}
		try = o.bringUp
	}
}

// fallsBack reports whether the next attempt is one with another flavor or zone. A quota counts all of them, so it is
// no reason for another one.
func (o *operation) fallsBack(err error) bool {
	return reconfigure.ClassOf(err) == reconfigure.ClassCapacity && len(o.fallbacks) > 0 && o.term.ctx.Err() == nil
}

// retries reports whether another attempt may succeed. There is none after slurmd was started: it can register at any
// moment, and the job that waits for the node would begin on an instance that is being removed.
func (o *operation) retries(err error, attempt int, took time.Duration) bool {
	return reconfigure.ClassOf(err).Boots() && !o.attempt.started && o.term.ctx.Err() == nil &&
		attempt < o.change.Retries && took <= left(o.term.ctx)
}

// another removes the remains of the last attempt, or sets its instance aside. The next attempt may begin only if
// nothing remains, and if Slurm still waits for the node, if it did: it may have been suspended or given up meanwhile.
func (o *operation) another(failure error) error {
	o.removeAside()
	if !o.setAside(failure) {
		if err := o.discard(o.term.ctx); err != nil {
			return fmt.Errorf("its instance could not be removed: %w", err)
		}
	}
	state, err := o.state(o.term.ctx)
	if err != nil {
		return err
	}
	if !state.PoweringUp() && !o.change.Deadline.IsZero() {
		return errors.New("its resume was given up by Slurm")
	}
	return nil
}

// bringUp is one attempt.
func (o *operation) bringUp() error {
	o.enter(reconfigure.PhaseApply)
	o.progress.forget()
	if err := o.provision(o.term.ctx); err != nil {
		return err
	}
	return o.boot(o.newDisk())
}

// provision lets Terraform make the instance. Passing failures are retried, within the deadline.
func (o *operation) provision(ctx context.Context) error {
	if o.round.Seen.Desired[o.change.Node].HasInstance() { // the cloud may still carry out an interrupted run
		o.awaitBuilt(ctx)
	}
	limit := tries{
		first: o.operator.timing.Pause, most: 5, within: within(ctx),
		note: func(err error, pause time.Duration) {
			o.note(fmt.Sprintf("tried again in %s: %s", pause, said(err)))
		},
	}
	return limit.retry(ctx, func(last error) (again bool, err error) {
		made, err := o.ask(ctx, o.makes())
		switch {
		case err == nil:
			o.made(made)
			return false, nil
		case last != nil && reconfigure.ClassOf(err) == reconfigure.ClassRefused:
			o.note(said(err))
			return false, last
		case last != nil && errors.Is(err, errLate):
			return false, fmt.Errorf("%w: %w", err, last)
		}
		err = o.term.late(err, o.progress.get())
		return reconfigure.ClassOf(err).Passing(), err
	})
}

// made records the instance that Terraform has made, started or stopped.
func (o *operation) made(r provision.Result) {
	o.instance.make(r)
	if o.change.Action == reconfigure.Stop {
		o.endLife()
	} else {
		o.beginLife(r.Instance.ID, r.Taken)
	}
	o.operator.found(map[string]reconfigure.Instance{o.change.Node: r.Instance})
}

// newDisk reports whether this operation has given the instance a new disk, and so a new host key. A resized one keeps
// both. An earlier worker may have learned the key of an instance that was made before the plan.
func (o *operation) newDisk() bool {
	before := o.round.Seen.Instances[o.change.Node]
	return o.instance.origin != originTaken && (before.ID != o.instance.ID || before.Made.ImageID != o.change.Spec.ImageID)
}

// boot waits until the instance answers by SSH, gets it configured, and waits until slurmd has registered.
func (o *operation) boot(newDisk bool) error {
	o.enter(reconfigure.PhaseBoot)
	o.progress.appeared(reconfigure.Server{ID: o.instance.ID})
	err := o.answers(newDisk)
	if late := o.term.overtaken(o.progress.get().made); err != nil && late != nil {
		return late
	}
	if err != nil {
		return byDefault(reconfigure.ClassSSH, o.term.cause(err))
	}
	o.passed(booted)
	return o.configureAndVerify()
}

// answers waits until the instance answers by SSH.
func (o *operation) answers(newDisk bool) error {
	ctx, cancel := context.WithTimeoutCause(o.term.ctx, o.round.Cluster.Settings.BootTimeout, errBoot)
	defer cancel()
	return o.deps().Waiter.Wait(ctx, o.instance.Instance, newDisk)
}

// reconfigure configures an instance that exists. A worker may have died before the instance had booted.
func (o *operation) reconfigure() error {
	known, err := o.deps().Waiter.Known(o.term.ctx, o.instance.Instance)
	switch {
	case err != nil:
		return o.term.cause(err)
	case !known:
		return o.boot(false)
	}
	return o.configureAndVerify()
}

// errBoot ends the wait for SSH.
var errBoot = errors.New("it did not answer in time")

func (o *operation) configureAndVerify() error {
	started, err := o.startSlurmd()
	if err == nil && !started {
		err = o.configure()
	}
	if err != nil {
		return err
	}
	o.passed(configured)
	return o.verifyAndSettle()
}

func (o *operation) verifyAndSettle() error {
	if err := o.verify(); err != nil {
		return err
	}
	o.passed(registered)
	o.settle()
	return nil
}

// settle waits for Terraform's own verdict. By now slurmd has registered and a job may run, or the instance has been
// removed. So a state without that change is only noted.
func (o *operation) settle() {
	if o.instance.settled == nil {
		return
	}
	select {
	case err := <-o.instance.settled:
		if err != nil {
			o.note("Terraform's state is behind the cloud: " + err.Error())
		}
	case <-o.operator.ctx.Done():
	}
	o.instance.settled = nil
}

// awaitBuilt waits while the cloud still makes an instance of an earlier run: when it is ACTIVE it can be adopted, and
// need not be made again.
func (o *operation) awaitBuilt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, o.operator.timing.Build)
	defer cancel()
	for {
		servers, err := o.operator.serversOfNode(ctx, o.change.Node)
		building := slices.ContainsFunc(servers, func(s reconfigure.Server) bool {
			return s.Status == reconfigure.ServerBuilding && s.Created.After(o.change.Since)
		})
		if err != nil || !building || sleep.For(ctx, o.operator.timing.Poll) != nil {
			return
		}
	}
}

// adopt adds an instance to Terraform's state that is tainted there or missing, and that must not be lost: it is in
// use, or it is the control node's, which is then configured.
func (o *operation) adopt() error {
	o.enter(reconfigure.PhaseApply)
	o.awaitBuilt(o.term.ctx)
	if o.isGone("") && o.change.Node != o.round.Cluster.Control.Name {
		return o.makeAnew()
	}
	adopted, err := o.ask(o.term.ctx, o.takes())
	if err != nil {
		return err
	}
	o.beginLife(adopted.Instance.ID, true)
	if !o.configures() {
		o.passed(registered) // Slurm uses it
		return nil
	}
	o.instance.Instance = adopted.Instance
	o.operator.found(map[string]reconfigure.Instance{o.change.Node: adopted.Instance})
	return o.boot(false)
}

// isGone reports whether the cloud has no instance of the node with this id, or none at all if id is empty. It is false
// if the cloud does not answer.
func (o *operation) isGone(id string) bool {
	servers, err := o.operator.serversOfNode(o.term.ctx, o.change.Node)
	return err == nil && !slices.ContainsFunc(servers, func(s reconfigure.Server) bool { return id == "" || s.ID == id })
}

// makeAnew makes an instance in place of a missing one, so nothing is lost. It refuses while Slurm has a job on the
// node: the cloud may not list all of its servers.
func (o *operation) makeAnew() error {
	state, err := o.state(o.term.ctx)
	switch {
	case err != nil:
		return reconfigure.Classify(reconfigure.ClassRefused, fmt.Errorf("left alone: Slurm does not answer: %w", err))
	case state.Running():
		return reconfigure.Classify(reconfigure.ClassRefused,
			errors.New("left alone: a job runs on it, though the cloud has no instance of it"))
	}
	o.note("the cloud does not have its instance any more: it is made anew")
	o.instance.origin = originMissing
	return o.bringUp()
}

// reboot restarts the instance through the cloud, so that its boot is newer than the request. An instance that does not
// come up may be replaced.
func (o *operation) reboot() error { return o.attempts(o.restart) }

func (o *operation) restart() error {
	o.enter(reconfigure.PhaseApply)
	gone := o.isGone(o.instance.ID)
	if !gone {
		if err := o.restoreEntry(); err != nil {
			return err
		}
	}
	if err := o.learnKey(); err != nil {
		return err
	}
	if err := o.guard(o.term.ctx); err != nil { // last, since a job can start until then
		return err
	}
	if gone {
		return o.makeAnew()
	}
	o.progress.touch(true)
	if err := o.deps().Cloud.Reboot(o.term.ctx, o.instance.ID); err != nil {
		return byDefault(reconfigure.ClassBoot, o.term.cause(err))
	}
	return o.boot(false)
}

// learnKey waits for an instance that runs and whose host key is unknown, before it is rebooted: its console log may not
// show the key again. If it does not answer in time, it is rebooted all the same, since that may help.
func (o *operation) learnKey() error {
	known, err := o.deps().Waiter.Known(o.term.ctx, o.instance.Instance)
	if err != nil || known || !o.runs() {
		return o.term.cause(err)
	}
	o.note("its host key is not known yet: it is awaited before the reboot, which may clear its console log")
	if err := o.answers(false); err != nil {
		o.note("it is rebooted although its host key is unknown: it " + said(err))
	}
	return context.Cause(o.term.ctx)
}

// takeUp continues a boot for the request that an earlier worker did not complete. An instance that no longer runs is
// rebooted.
func (o *operation) takeUp() error {
	if !o.runs() {
		return o.restart()
	}
	o.beginLife(o.instance.ID, true)
	return o.goOn()
}

// goOn continues at the phase that the last worker had begun. From PhaseConfigure on, that worker may have started
// slurmd. If slurmd does not register and the boot may be older than Slurm's call, the instance is rebooted. A boot
// that Slurm waits for is not repeated: slurmd can register at any moment, also during the reboot, and the job that
// waits for the node would begin and be lost.
func (o *operation) goOn() error {
	o.note("a worker that has ended had begun its boot, which goes on")
	o.instance.origin = originTaken
	o.progress.touch(true)
	var err error
	switch o.change.At {
	case reconfigure.PhaseConfigure:
		o.attempt.started = true
		err = o.configureAndVerify()
	case reconfigure.PhaseVerify:
		o.attempt.started = true
		err = o.verifyAndSettle()
	default:
		err = o.boot(false)
	}
	if o.change.At == reconfigure.PhaseApply && reconfigure.ClassOf(err) == reconfigure.ClassUnregistered &&
		!errors.Is(err, errMisfit) && o.term.ctx.Err() == nil {
		o.note("it is rebooted: " + said(err))
		return o.restart()
	}
	return err
}

// restoreEntry restores the entry of the actual instance in Terraform's map. The map asks for another instance, which
// is no longer declared, if a worker was killed before Terraform began.
func (o *operation) restoreEntry() error {
	if !o.round.Seen.Unmade.Contains(o.change.Node) {
		return nil
	}
	o.note("the map of nodes asks for another instance than the declared one, which it has: the entry is corrected")
	_, err := o.ask(o.term.ctx, o.makes())
	return err
}

// guard refuses to end an instance if a job runs or may start on it, or if that is unknown.
func (o *operation) guard(ctx context.Context) error {
	if o.change.Force {
		return nil
	}
	state, err := o.state(ctx)
	busy := provision.InUse(o.instance.Instance, state, err)
	if busy != nil {
		o.round.leave(o.change.Node)
	}
	return busy
}
