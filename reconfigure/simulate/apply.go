package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// Half is the state in which a killed Terraform leaves a change. Terraform writes its state when a resource is
// finished, and some backends even later, so the state lacks the cloud's later changes.
type Half string

// The ways to leave a change.
const (
	NotBegun  Half = "not begun"
	Removed   Half = "removed"   // of a replacement: the old instance is removed, but the state still has it
	Unwritten Half = "unwritten" // done, but the state lacks it; of a new instance, it has the port
	Unknown   Half = "unknown"   // the state has no part of a new instance
	Tainted   Half = "tainted"   // the state has a tainted new instance: Terraform was interrupted, and its caller killed
)

// kill says when a process that changes node after node is killed.
type kill struct {
	// the number of changes that are finished before the kill; the next one is left as the half says
	after int
	in    time.Duration // if not zero: the time from its beginning, instead of the number
	half  Half
}

// Death is the cause with which a context ends if the process under it is killed. Terraform then leaves unfinished
// changes as the half says.
type Death struct{ Half Half }

func (d Death) Error() string { return "killed" }

// KillDuring kills the next Apply, or the next Configure, after some of its changes or nodes. The next change is left
// as half says. Spare cancels that, if it has not happened.
func (w *World) KillDuring(after int, half Half) (spare func()) {
	return w.willKill(kill{after: after, half: half})
}

// KillAfter kills the next Apply at a time after its beginning. Unfinished changes are left as half says.
func (w *World) KillAfter(d time.Duration, half Half) (spare func()) {
	return w.willKill(kill{in: d, half: half})
}

func (w *World) willKill(k kill) (spare func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.terraform.kill = &k
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.terraform.kill = nil
	}
}

// breaksOff counts a change, and reports whether the process is killed at it.
func (w *World) breaksOff() bool {
	if w.terraform.kill == nil || w.terraform.kill.in > 0 {
		return false
	}
	w.terraform.kill.after--
	return w.terraform.kill.after < 0
}

// underWay is a change that Terraform has requested from the cloud.
type underWay struct {
	change  reconfigure.ResourceChange
	spec    reconfigure.Spec
	server  *server   // the server that is being made or removed
	goes    bool      // the server is removed; for a replacement, this comes first
	returns time.Time // when Terraform sees the result
	err     error     // the result
}

// apply is a run of Terraform.
type apply struct {
	*Provisioner
	preview  reconfigure.Preview
	open     []*underWay
	later    []reconfigure.ResourceChange // changes that were not requested from the cloud yet
	failures reconfigure.Failures
	last     *reconfigure.ResourceChange // the change at which Terraform is killed, after the open changes
	half     Half
}

// Apply carries out a preview once, as the provider does. It posts all changes to the cloud at the beginning, and
// polls for their results after ProviderSleep. An interrupt ends it after Halting. The Calls include only an Apply with
// changes.
func (p *Provisioner) Apply(
	ctx context.Context, preview reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{},
) (
	reconfigure.Failures, error,
) {
	end, err := p.work(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	defer p.happened(AfterApply)
	began := time.Now()
	p.spend(ctx, Applying)
	for _, c := range preview.Changes {
		watch(c.Node, string(c.Effect)+" "+c.Address)
	}
	a, err := p.begin(ctx, preview)
	if a == nil || err != nil {
		return nil, err
	}
	for {
		at, ok := a.next()
		switch {
		case !ok && a.postRest():
			continue
		case !ok:
			return a.end()
		}
		wait, dies := time.NewTimer(time.Until(at)), time.NewTimer(a.dies(began))
		select {
		case <-wait.C:
			a.settle()
			wait.Stop()
			dies.Stop()
			continue
		case <-dies.C:
			a.settle()
			a.dieAs("")
			return nil, killed()
		case <-ctx.Done():
			a.settle()
			if death := (Death{}); errors.As(context.Cause(ctx), &death) {
				a.dieAs(death.Half)
				return nil, killed()
			}
			a.cut()
			return nil, ctx.Err()
		case <-interrupt:
			p.spend(ctx, Halting)
			a.settle()
			return a.cut(), nil
		}
	}
}

// begin posts all changes to the cloud; it returns nil if there are none.
func (p *Provisioner) begin(ctx context.Context, preview reconfigure.Preview) (*apply, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.keep(preview.Plan.Desired)
	seen, known := p.terraform.previews[preview.File]
	switch {
	case preview.File == "" || known && len(preview.Changes) == 0 && !preview.Behind:
		delete(p.terraform.previews, preview.File)
		return nil, ctx.Err()
	case !known:
		return nil, fmt.Errorf("there is no preview %q", preview.File)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.ordered(StateLocked):
		return nil, stateLocked()
	}
	// All earlier previews are stale now.
	maps.DeleteFunc(p.terraform.previews, func(_ string, other *foreseen) bool { return other.shard == p.shard })
	p.seen.calls = append(p.seen.calls, p.called("apply")+" "+inWords(preview.Changes))
	p.advance()
	maps.Copy(p.terraform.state, seen.state)
	a := &apply{Provisioner: p, preview: preview, failures: p.portless(preview.Changes)}
	for i, c := range preview.Changes {
		if a.failures[c.Node] != nil {
			continue
		}
		if p.struck(NotReached, c.Node) || p.struck(NotSent, c.Node) {
			a.later = append(a.later, c)
			continue
		}
		if p.breaksOff() {
			a.last, a.half = &preview.Changes[i], p.terraform.kill.half
			p.terraform.kill = nil
			break
		}
		a.post(c)
		if p.ordered(Killed) {
			a.taint()
			return nil, killed()
		}
	}
	return a, nil
}

// portless returns the nodes that get no instance because a port failed: their port, or another port of the run.
func (w *World) portless(changes []reconfigure.ResourceChange) reconfigure.Failures {
	makes := func(c reconfigure.ResourceChange) bool {
		return c.Effect == reconfigure.EffectCreate || c.Effect == reconfigure.EffectReplace
	}
	failures := reconfigure.Failures{}
	for _, c := range changes {
		if makes(c) && w.struck(NoPort, c.Node) {
			failures[c.Node] = failure{NoPort}
		}
	}
	for _, c := range changes {
		if len(failures) > 0 && makes(c) && c.Node != "" && failures[c.Node] == nil {
			failures[c.Node] = fmt.Errorf("%w, since another failed", reconfigure.ErrUntried)
		}
	}
	return failures
}

// postRest requests the remaining changes from the cloud, and reports whether there are any.
func (a *apply) postRest() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	later := a.later
	a.later = nil
	for _, c := range later {
		a.post(c)
	}
	return len(later) > 0
}

// post requests one change from the cloud.
func (a *apply) post(c reconfigure.ResourceChange) {
	u := &underWay{change: c, spec: a.preview.Plan.Desired[c.Node].Stored()}
	if id := a.preview.Plan.Desired[c.Node].Avoid; id != "" {
		a.cloud.avoided = append(a.cloud.avoided, id)
	}
	switch {
	case c.Node == "":
		a.terraform.shared = len(a.preview.Plan.Desired) > 0
		return
	case c.Kind == reconfigure.KindPort:
		delete(a.terraform.state, c.Node)
		return
	case c.Effect == reconfigure.EffectCreate:
		a.make(u)
	case c.Effect == reconfigure.EffectRebuild:
		u.server = a.server(a.terraform.state[c.Node].id)
		a.rebuild(u.server, u.spec)
		u.returns = a.known(u.server.active, c.Node)
	case c.Effect == reconfigure.EffectStart, c.Effect == reconfigure.EffectStop:
		a.switchOver(u)
	default:
		a.unmake(u)
	}
	a.open = append(a.open, u)
}

// known returns when Terraform sees the cloud's changes up to a time.
func (w *World) known(by time.Time, node string) time.Time {
	looks := time.Now().Add(w.span(ProviderSleep, node))
	if by.Equal(never()) {
		return time.Now().Add(w.span(ProviderTimeout, node))
	}
	if by.After(looks) {
		return by
	}
	return looks
}

// switchOver starts or stops an instance.
func (a *apply) switchOver(u *underWay) {
	node := u.change.Node
	u.server, u.returns = a.server(a.terraform.state[node].id), time.Now()
	switch {
	case a.struck(StopFails, node) && u.change.Effect == reconfigure.EffectStop:
		u.err = reconfigure.Classify(reconfigure.ClassBoot, failure{StopFails})
	case a.struck(StartFails, node) && u.change.Effect == reconfigure.EffectStart:
		u.err = reconfigure.Classify(reconfigure.ClassBoot, failure{StartFails})
	case u.server == nil:
		u.err = failure{StartFails}
	default:
		a.switches(u.server, u.spec.Power)
		u.returns = a.known(u.server.powers, node)
	}
}

func (a *apply) unmake(u *underWay) {
	u.goes, u.server, u.returns = true, a.server(a.terraform.state[u.change.Node].id), time.Now()
	switch {
	case a.struck(NeverRemoved, u.change.Node):
		u.err = failure{NeverRemoved}
		return
	case u.server == nil:
		return
	}
	a.ends(u.server)
	a.delete(u.server)
	u.returns = a.known(u.server.gone, u.change.Node)
	if u.server.gone.Equal(never()) {
		u.err = reconfigure.Classify(reconfigure.ClassUnknown, errors.New("timeout while waiting for it to be deleted"))
	}
}

func (w *World) rebuild(s *server, spec reconfigure.Spec) {
	w.ends(s)
	w.stop(s)
	s.spec, s.configured, s.clean, s.active = spec, false, false, after(w.span(Building, s.node))
	s.mark, s.disks = "", s.disks+1
}

// make posts a new instance. If the cloud refuses it, Terraform's state has only the port.
func (a *apply) make(u *underWay) {
	node := u.change.Node
	u.returns = time.Now()
	r := a.terraform.state[node]
	switch {
	case r != nil && r.id == "" && len(a.serversOf(node)) > 0:
		u.err = failure{portInUse}
	case a.struck(NoQuota, node), a.full():
		u.err = reconfigure.Classify(reconfigure.ClassQuota, failure{NoQuota})
	case a.struck(LostCreate, node):
		a.create(node, u.spec)
		u.err = reconfigure.Classify(reconfigure.ClassUnknown, failure{LostCreate})
	default:
		u.server = a.create(node, u.spec)
		u.err = a.fate(u.server)
		u.returns = a.known(u.server.active, node)
		if a.struck(LostPoll, node) {
			u.returns = time.Now().Add(a.span(ProviderSleep, node))
		}
	}
}

// fate returns the result that Terraform will have of a new instance.
func (w *World) fate(s *server) error {
	switch {
	case w.struck(NoValidHost, s.node), w.struck(NoFirst, s.node) && w.isFirst(s):
		s.fault = reconfigure.Fault{Words: "No valid host was found.", Class: reconfigure.ClassCapacity}
		return failure{TerraformOnError}
	case w.struck(LateFailure, s.node):
		return failure{LateFailure}
	case w.struck(LostPoll, s.node):
		return reconfigure.Classify(reconfigure.ClassCloud, failure{LostPoll})
	case s.active.Equal(never()):
		return reconfigure.Classify(reconfigure.ClassBoot, errors.New("timeout while waiting for state to become 'ACTIVE'"))
	}
	return nil
}

// isFirst reports whether an instance has the flavor and the zone that its group declares first.
func (w *World) isFirst(s *server) bool {
	g, _ := w.cluster.GroupOf(s.node)
	return s.spec.FlavorID == idOf(g.Flavor) && s.spec.Zone == g.Zone
}

// next returns when Terraform sees the next result.
func (a *apply) next() (at time.Time, ok bool) {
	for _, u := range a.open {
		if !ok || u.returns.Before(at) {
			at, ok = u.returns, true
		}
	}
	return at, ok
}

// dies returns the time until Terraform is killed.
func (a *apply) dies(began time.Time) time.Duration {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.terraform.kill == nil || a.terraform.kill.in == 0 {
		return time.Until(never())
	}
	return time.Until(began.Add(a.terraform.kill.in))
}

// settle writes the results that Terraform sees by now to its state, and goes on.
func (a *apply) settle() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	open := a.open
	a.open = nil
	for _, u := range open {
		switch node := u.change.Node; {
		case time.Now().Before(u.returns):
			a.open = append(a.open, u)
		case u.goes && u.err == nil:
			delete(a.terraform.state, node)
			if u.change.Effect == reconfigure.EffectReplace {
				a.open = append(a.open, a.second(u))
			}
		case u.err != nil:
			a.failures[node] = u.err
			if !u.goes {
				a.write(u, !u.stays())
			}
		default:
			a.write(u, false)
		}
	}
}

// second returns the second half of a replacement.
func (a *apply) second(u *underWay) *underWay {
	next := &underWay{change: u.change, spec: u.spec}
	a.make(next)
	return next
}

// write adds new resources to the state. The provider writes the address of a new instance when the instance is
// finished.
func (a *apply) write(u *underWay, tainted bool) {
	r := &resource{tainted: tainted, spec: u.spec}
	if u.server != nil {
		r.id = u.server.id
	}
	if u.server != nil && !tainted {
		r.address = u.server.address
	}
	a.terraform.state[u.change.Node] = r
}

// cut is an interrupt: the state has new instances with their ids, as tainted; it keeps those that were being removed;
// it has a rebuild as if it were complete.
func (a *apply) cut() reconfigure.Failures {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	for _, c := range a.later {
		a.failures[c.Node] = fmt.Errorf("%w: not sent", reconfigure.ErrInterrupted)
		if a.struck(NotReached, c.Node) {
			a.failures[c.Node] = fmt.Errorf("%w: %w", reconfigure.ErrInterrupted, reconfigure.ErrUntried)
		}
	}
	for _, u := range a.open {
		a.failures[u.change.Node] = fmt.Errorf("%w: execution halted", reconfigure.ErrInterrupted)
	}
	a.taint()
	return a.failures
}

// taint writes unfinished changes to the state as an interrupted Terraform does.
func (a *apply) taint() {
	for _, u := range a.open {
		switch {
		case u.goes:
		default:
			a.write(u, !u.stays())
		}
	}
}

// stays reports whether the instance is changed in place. The provider then writes the planned values to the state,
// even if the change fails, and Terraform does not taint it.
func (u *underWay) stays() bool {
	e := u.change.Effect
	return e == reconfigure.EffectRebuild || e == reconfigure.EffectStart || e == reconfigure.EffectStop
}

// killed is the error of a Terraform that was killed.
func killed() error { return reconfigure.Classify(reconfigure.ClassUnknown, failure{Killed}) }

// dieAs leaves all unfinished changes as half says; an empty half means the ordered one.
func (a *apply) dieAs(half Half) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	if half == "" {
		half, a.terraform.kill = a.terraform.kill.half, nil
	}
	for _, u := range a.open {
		switch {
		case u.goes || u.stays():
		case half == Unwritten:
			a.terraform.state[u.change.Node] = &resource{tainted: true, spec: u.spec}
		case half == Tainted:
			a.write(u, true)
		}
	}
}

// end returns Terraform's results.
func (a *apply) end() (reconfigure.Failures, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.last != nil {
		a.leave(*a.last)
		return nil, killed()
	}
	if a.ordered(LostAnswer) {
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, failure{LostAnswer})
	}
	return a.failures, nil
}

// leave leaves a change as the half says. A resource that all nodes share is either made or not.
func (a *apply) leave(c reconfigure.ResourceChange) {
	spec := a.preview.Plan.Desired[c.Node].Stored()
	removes := c.Effect == reconfigure.EffectDelete || c.Effect == reconfigure.EffectReplace && a.half == Removed
	switch {
	case a.half == NotBegun || c.Node == "":
	case a.half == Removed && !removes:
	case removes:
		if s := a.server(a.terraform.state[c.Node].id); s != nil {
			a.remove(s)
		}
	case c.Effect == reconfigure.EffectRebuild:
		a.rebuild(a.server(a.terraform.state[c.Node].id), spec)
	case c.Effect == reconfigure.EffectStart, c.Effect == reconfigure.EffectStop:
		a.switches(a.server(a.terraform.state[c.Node].id), spec.Power)
	default:
		for _, s := range a.serversOf(c.Node) {
			a.remove(s)
		}
		delete(a.terraform.state, c.Node)
		u := &underWay{change: c, spec: spec}
		a.make(u)
		switch a.half {
		case Unwritten:
			a.terraform.state[c.Node] = &resource{tainted: true, spec: spec}
		case Tainted:
			a.write(u, true)
		}
	}
}
