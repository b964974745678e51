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

// Half is how Terraform leaves a change when it is killed. It writes its state when a resource is finished, with some
// back ends later still, so what the cloud has done by then is not in it.
type Half string

// The ways to leave a change.
const (
	NotBegun  Half = "not begun"
	Removed   Half = "removed"   // of a replacement the first half: the old instance is gone, which the state does not say
	Unwritten Half = "unwritten" // it is done, but the state does not say so: of a new instance it has the port alone
	Unknown   Half = "unknown"   // of a new instance the state has nothing at all
	Tainted   Half = "tainted"   // the state has a new instance as half made: Terraform was interrupted, and its caller killed
)

// kill is when a process that changes node after node is killed.
type kill struct {
	after int           // so many are finished; the next one is left half done
	in    time.Duration // or so long after it began; zero: it counts
	half  Half
}

// Death is the cause of the end of a context that kills the programs which run under it, as the end of a process does
// that is killed: Terraform leaves what it has not finished as the half says.
type Death struct{ Half Half }

func (d Death) Error() string { return "killed" }

// KillDuring has the next Apply be killed when so many of its changes are done, and the next one is left half done; or
// the next Configure, of nodes. Spare takes that back where it did not come so far.
func (w *World) KillDuring(after int, half Half) (spare func()) {
	return w.willKill(kill{after: after, half: half})
}

// KillAfter has the next Apply be killed so long after it began. What Terraform has not finished by then is left as
// half says.
func (w *World) KillAfter(d time.Duration, half Half) (spare func()) {
	return w.willKill(kill{in: d, half: half})
}

func (w *World) willKill(k kill) (spare func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.kill = &k
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.kill = nil
	}
}

// breaksOff counts a change, and reports whether the process is killed at it.
func (w *World) breaksOff() bool {
	if w.kill == nil || w.kill.in > 0 {
		return false
	}
	w.kill.after--
	return w.kill.after < 0
}

// underWay is a change that Terraform has asked of the cloud.
type underWay struct {
	change  reconfigure.ResourceChange
	spec    reconfigure.Spec
	server  *server   // that comes, or goes
	goes    bool      // it goes; of a replacement this comes first
	returns time.Time // when Terraform knows
	err     error     // what it says then
}

// apply is a run of Terraform.
type apply struct {
	*Provisioner
	preview  reconfigure.Preview
	open     []*underWay
	failures reconfigure.Failures
	last     *reconfigure.ResourceChange // where it is killed when the open ones are done
	half     Half
}

// Apply carries out a preview, once, as the provider does: what is made and removed is asked of the cloud at the
// beginning, and Terraform returns when it has looked, which it does not do before ProviderSleep is over. When it is
// interrupted it ends at once. Only an Apply that has something to do is among the Calls.
func (p *Provisioner) Apply(ctx context.Context, preview reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{}) (
	reconfigure.Failures, error,
) {
	defer p.Begin(p.tool(), always)()
	defer p.happened(AfterApply)
	for _, c := range preview.Changes {
		watch(c.Node, string(c.Effect)+" "+c.Address)
	}
	began := time.Now()
	p.spend(ctx, Applying)
	a, err := p.begin(ctx, preview)
	if a == nil || err != nil {
		return nil, err
	}
	for {
		at, ok := a.next()
		if !ok {
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
			a.settle()
			return a.cut(), nil
		}
	}
}

// begin asks the cloud for all changes; nil where there is nothing to do.
func (p *Provisioner) begin(ctx context.Context, preview reconfigure.Preview) (*apply, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.keep(preview.Plan.Desired)
	_, known := p.previews[preview.File]
	switch {
	case preview.File == "" || known && len(preview.Changes) == 0:
		delete(p.previews, preview.File)
		return nil, ctx.Err()
	case !known:
		return nil, fmt.Errorf("there is no preview %q", preview.File)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.ordered(StateLocked):
		return nil, failure{StateLocked}
	}
	// Whatever was previewed before is stale now.
	maps.DeleteFunc(p.previews, func(_, shard string) bool { return shard == p.shard })
	p.calls = append(p.calls, p.called("apply")+" "+inWords(preview.Changes))
	p.advance()
	a := &apply{Provisioner: p, preview: preview, failures: p.portless(preview.Changes)}
	for i, c := range preview.Changes {
		if a.failures[c.Node] != nil {
			continue
		}
		if p.breaksOff() {
			a.last, a.half = &preview.Changes[i], p.kill.half
			p.kill = nil
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

// portless is the nodes that get no instance for want of a port, be it their own or another's.
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

// post asks the cloud for one change.
func (a *apply) post(c reconfigure.ResourceChange) {
	u := &underWay{change: c, spec: a.preview.Plan.Desired[c.Node]}
	switch {
	case c.Node == "":
		a.shared = len(a.preview.Plan.Desired) > 0
		return
	case c.Kind == reconfigure.KindPort:
		delete(a.state, c.Node)
		return
	case c.Effect == reconfigure.EffectCreate:
		a.make(u)
	case c.Effect == reconfigure.EffectRebuild:
		u.server = a.server(a.state[c.Node].id)
		a.rebuild(u.server, u.spec)
		u.returns = a.known(u.server.active, c.Node)
	default:
		a.unmake(u)
	}
	a.open = append(a.open, u)
}

// known is when Terraform knows what the cloud has done by then.
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

func (a *apply) unmake(u *underWay) {
	u.goes, u.server, u.returns = true, a.server(a.state[u.change.Node].id), time.Now()
	switch {
	case a.struck(NeverRemoved, u.change.Node):
		u.err = failure{NeverRemoved}
		return
	case u.server == nil:
		return
	}
	a.delete(u.server)
	u.returns = a.known(u.server.gone, u.change.Node)
	if u.server.gone.Equal(never()) {
		u.err = reconfigure.Classify(reconfigure.ClassUnknown, errors.New("timeout while waiting for it to be deleted"))
	}
}

func (w *World) rebuild(s *server, spec reconfigure.Spec) {
	w.stop(s)
	s.spec, s.configured, s.active = spec, false, after(w.span(Building, s.node))
}

// make asks for a new instance. Of one that the cloud does not take Terraform's state has the port.
func (a *apply) make(u *underWay) {
	node := u.change.Node
	u.returns = time.Now()
	r := a.state[node]
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

// fate is what Terraform will say of a new instance.
func (w *World) fate(s *server) error {
	switch {
	case w.struck(NoValidHost, s.node):
		s.fault = "No valid host was found."
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

// next is when Terraform knows more.
func (a *apply) next() (at time.Time, ok bool) {
	for _, u := range a.open {
		if !ok || u.returns.Before(at) {
			at, ok = u.returns, true
		}
	}
	return at, ok
}

// dies is how long Terraform has to live from now on.
func (a *apply) dies(began time.Time) time.Duration {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.kill == nil || a.kill.in == 0 {
		return time.Until(never())
	}
	return time.Until(began.Add(a.kill.in))
}

// settle has Terraform write down what it knows by now, and go on.
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
			delete(a.state, node)
			if u.change.Effect == reconfigure.EffectReplace {
				a.open = append(a.open, a.second(u))
			}
		case u.err != nil:
			a.failures[node] = u.err
			if !u.goes {
				a.write(u, true)
			}
		default:
			a.write(u, false)
		}
	}
}

// second is the second half of a replacement.
func (a *apply) second(u *underWay) *underWay {
	next := &underWay{change: u.change, spec: u.spec}
	a.make(next)
	return next
}

// write has the state have what was made.
func (a *apply) write(u *underWay, tainted bool) {
	r := &resource{tainted: tainted, spec: u.spec}
	if u.server != nil {
		r.id, r.address = u.server.id, u.server.address
	}
	a.state[u.change.Node] = r
}

// cut is an interrupt: new instances are in the state by their ids, as half made; what was to go is there still; a
// rebuild is written down as if it were done.
func (a *apply) cut() reconfigure.Failures {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	for _, u := range a.open {
		a.failures[u.change.Node] = fmt.Errorf("%w: execution halted", reconfigure.ErrInterrupted)
	}
	a.taint()
	return a.failures
}

// taint writes down what is not finished as an interrupted Terraform does.
func (a *apply) taint() {
	for _, u := range a.open {
		switch {
		case u.goes:
		case u.change.Effect == reconfigure.EffectRebuild:
			a.write(u, false)
		default:
			a.write(u, true)
		}
	}
}

// killed is what is said of a Terraform that was killed.
func killed() error { return reconfigure.Classify(reconfigure.ClassUnknown, failure{Killed}) }

// dieAs leaves everything that is not finished half done; without a half, as was ordered.
func (a *apply) dieAs(half Half) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.advance()
	if half == "" {
		half, a.kill = a.kill.half, nil
	}
	for _, u := range a.open {
		switch {
		case u.goes || u.change.Effect == reconfigure.EffectRebuild:
		case half == Unwritten:
			a.state[u.change.Node] = &resource{tainted: true, spec: u.spec}
		case half == Tainted:
			a.write(u, true)
		}
	}
}

// end is what Terraform says.
func (a *apply) end() (reconfigure.Failures, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.last != nil {
		a.cutShort(*a.last)
		return nil, killed()
	}
	if a.ordered(LostAnswer) {
		return nil, reconfigure.Classify(reconfigure.ClassUnknown, failure{LostAnswer})
	}
	return a.failures, nil
}

// cutShort leaves a change half done. What belongs to all is quickly made; it is done or not.
func (a *apply) cutShort(c reconfigure.ResourceChange) {
	spec := a.preview.Plan.Desired[c.Node]
	removes := c.Effect == reconfigure.EffectDelete || c.Effect == reconfigure.EffectReplace && a.half == Removed
	switch {
	case a.half == NotBegun || c.Node == "":
	case a.half == Removed && !removes:
	case removes:
		if s := a.server(a.state[c.Node].id); s != nil {
			a.remove(s)
		}
	case c.Effect == reconfigure.EffectRebuild:
		a.rebuild(a.server(a.state[c.Node].id), spec)
	default:
		for _, s := range a.serversOf(c.Node) {
			a.remove(s)
		}
		delete(a.state, c.Node)
		u := &underWay{change: c, spec: spec}
		a.make(u)
		switch a.half {
		case Unwritten:
			a.state[c.Node] = &resource{tainted: true, spec: spec}
		case Tainted:
			a.write(u, true)
		}
	}
}
