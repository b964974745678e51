package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// delivery is the progress of one call of a run.
type delivery struct {
	call    *call
	effect  reconfigure.Effect // what Terraform does to the instance; empty: nothing
	before  string             // id of the instance that the node had
	early   bool               // it may be delivered early: no resource of the node comes after its instance
	settled chan error         // Terraform's own verdict
	state   state
	server  reconfigure.Server // the delivered server; zero: removed, or in ERROR
}

// apply lets Terraform carry out a preview. A caller gets its result when the cloud has its server as requested,
// without the provider's fixed wait. Terraform is interrupted when all calls are delivered, or when others wait and the
// rest makes no progress; changes that were posted by then are adopted later. It is also interrupted when the rest are
// only replacements whose old instances are gone: another run makes the new ones. apply returns true if work is left.
func (t *run) apply(ctx context.Context, preview reconfigure.Preview, calls []*call) (again bool) {
	deliveries := t.deliveries(preview, calls)
	plans := map[int64]bool{}
	for _, d := range deliveries {
		plans[d.call.In.plan()] = true
		d.call.In.tell(Begun{Changes: d.call.In.change().Action != reconfigure.Remove})
	}
	t.Note(plans, "Terraform: "+preview.Plan.String())
	t.Flush(ctx)
	begun, interrupt, applied := make(chan struct{}), make(chan struct{}), make(chan struct{})
	watched := make(chan struct{})
	t.Under.Go(func() { // it asks through batchers, which count there too
		defer close(watched)
		t.watch(ctx, preview, deliveries, begun, interrupt, applied)
	})
	failures, err := t.terraform.Apply(ctx, preview, t.progress(deliveries, begun, interrupt), interrupt)
	close(applied)
	<-watched
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		t.forgotten(nil)
	}
	return t.conclude(ctx, preview, deliveries, failures, err)
}

func (t *run) deliveries(preview reconfigure.Preview, calls []*call) []*delivery {
	var all []*delivery
	for _, c := range calls {
		if c.In.target() == nil {
			continue
		}
		node := c.In.node()
		d := &delivery{call: c, before: t.state.Instances[node].ID, state: asked, early: true, settled: make(chan error, 1)}
		for _, change := range preview.Changes {
			switch {
			case change.Node != node:
			case change.Kind == reconfigure.KindInstance:
				d.effect = change.Effect
			case change.Kind != reconfigure.KindPort:
				d.early = false
			}
		}
		d.early = d.early && (d.effect == reconfigure.EffectCreate || d.effect == reconfigure.EffectRebuild ||
			d.effect == reconfigure.EffectReplace || d.effect == reconfigure.EffectDelete || d.powers())
		all = append(all, d)
	}
	return all
}

func nodesOf(deliveries []*delivery) nodeset.NodeSet {
	names := make([]string, len(deliveries))
	for i, d := range deliveries {
		names[i] = d.call.In.node()
	}
	return nodeset.Of(names...)
}

// progress passes Terraform's messages to the nodes until Terraform is interrupted: its messages about the interrupt do
// not concern them. It closes begun with the first message.
func (t *run) progress(deliveries []*delivery, begun chan<- struct{}, interrupt <-chan struct{}) Watch {
	first := sync.OnceFunc(func() { close(begun) })
	of := map[string]request{}
	for _, d := range deliveries {
		of[d.call.In.node()] = d.call.In
	}
	return func(node, message string) {
		first()
		select {
		case <-interrupt:
		default:
			if r, ok := of[node]; ok {
				r.note(message)
			}
		}
	}
}

// interruptible reports whether Terraform may be interrupted. For an instance the provider only waits for the cloud,
// but a resize or a resource of the site would be left unfinished. The Terraform driver waits for a port that is being
// made, and for the shared resources; those that are removed come after the instances.
func interruptible(preview reconfigure.Preview) bool {
	return !slices.ContainsFunc(preview.Changes, func(c reconfigure.ResourceChange) bool {
		half := c.Effect == reconfigure.EffectResize || c.Effect == reconfigure.EffectUpdate
		if c.Node == "" {
			return c.Effect == reconfigure.EffectDelete || c.Effect == reconfigure.EffectReplace
		}
		return half || c.Kind != reconfigure.KindInstance && c.Kind != reconfigure.KindPort
	})
}

// watch delivers calls that the cloud has completed, until Terraform has ended, and interrupts Terraform if there is a
// reason.
func (t *run) watch(
	ctx context.Context, preview reconfigure.Preview, deliveries []*delivery, begun <-chan struct{},
	interrupt chan<- struct{}, applied <-chan struct{},
) {
	cluster, _ := t.Using()
	var (
		may     = cluster.Settings.Interrupt && interruptible(preview)
		moved   = time.Now()
		awaited <-chan struct{}
		others  bool      // others wait: for the next run, or for Terraform's own verdict
		started time.Time // when Terraform began the first resource; zero: not yet
		next    = time.NewTimer(t.Timing.Poll)
	)
	defer next.Stop()
	awaited = t.batch.Awaited()
	for {
		select {
		case <-applied:
			return
		case <-ctx.Done():
			return
		case <-begun: // Terraform may take long to start on a busy host
			started, begun = time.Now(), nil
			moved = started
			next.Reset(sleep.Pause(0, t.Timing.Poll))
			continue
		case <-awaited:
			others, awaited = true, nil
			continue
		case <-next.C:
		}
		servers, err := t.Servers(ctx, nodesOf(deliveries))
		next.Reset(t.Timing.Poll)
		if err != nil {
			continue
		}
		if !started.IsZero() {
			next.Reset(sleep.Pause(time.Since(started), t.Timing.Poll))
		}
		for _, d := range deliveries {
			if s, there := d.renewed(servers[d.call.In.node()]); there {
				d.call.In.tell(Appeared{s})
			}
			if !d.state.given() && d.early && t.deliver(d, servers[d.call.In.node()]) {
				moved, others = time.Now(), true
			}
		}
		asleep := len(deliveries) > 0 && !slices.ContainsFunc(deliveries, func(d *delivery) bool {
			return !d.state.given() && !d.call.Finished() && !d.halfDone(servers[d.call.In.node()])
		})
		stuck := others && begun == nil && time.Since(moved) >= t.Timing.Straggler
		if may && (asleep || stuck && !preview.Plan.Shared) { // the nodes of a shared plan wait for one another anyway
			close(interrupt)
			select {
			case <-applied:
			case <-ctx.Done():
			}
			return
		}
	}
}

// deliver gives a caller its result if the cloud has its server as requested, or in ERROR.
func (t *Shard) deliver(d *delivery, servers []reconfigure.Server) bool {
	if d.effect == reconfigure.EffectDelete {
		if d.old(servers) {
			return false
		}
		d.on(vanishes)
		d.call.Finish(Result{Settled: d.settled}, nil)
		return true
	}
	s, there := d.renewed(servers)
	switch {
	case !there:
		return false
	case s.Failed():
		_, deps := t.Using()
		fault, err := deps.Cloud.Fault(t.ctx, s.ID)
		if err != nil {
			return false
		}
		d.on(breaks)
		d.call.Finish(Result{}, t.refused(d, withFault(errors.New("its instance is in ERROR"), fault)))
		return true
	case !asAsked(s, d.call.In.change().Spec) || s.Address == "":
		return false
	}
	d.server = s
	d.on(shows)
	d.call.Finish(Result{Instance: instanceOf(s, d.call.In.change().Spec), Settled: d.settled}, nil)
	return true
}

// old reports whether the cloud still has the instance that the node had.
func (d *delivery) old(servers []reconfigure.Server) bool {
	return slices.ContainsFunc(servers, func(s reconfigure.Server) bool { return s.ID == d.before })
}

// powers reports whether the instance stays, and is started or stopped.
func (d *delivery) powers() bool {
	return d.effect == reconfigure.EffectStart || d.effect == reconfigure.EffectStop
}

// renewed returns the newest server that Terraform has posted, or is rebuilding, starting or stopping.
func (d *delivery) renewed(servers []reconfigure.Server) (reconfigure.Server, bool) {
	for _, s := range slices.Backward(servers) {
		rebuilt := d.effect == reconfigure.EffectRebuild && s.ImageID == d.call.In.change().Spec.ImageID
		if s.ID != d.before && !d.powers() || s.ID == d.before && (rebuilt || d.powers()) {
			return s, true
		}
	}
	return reconfigure.Server{}, false
}

// refused gives up the jobs that need all of their nodes if there is no room for one of them.
func (t *Shard) refused(d *delivery, err error) error {
	if reconfigure.ClassOf(err).NoRoom() && !d.call.In.target().Tentative {
		t.NoRoom(reconfigure.Failures{d.call.In.node(): err})
	}
	return err
}

// asAsked reports whether a server runs or is stopped as requested, and is made from the requested source, as far as
// the cloud's list shows.
func asAsked(s reconfigure.Server, spec reconfigure.Spec) bool {
	same := func(is, wanted string) bool { return is == "" || is == wanted }
	return s.Status == spec.Status() && same(s.ImageID, spec.ImageID) && same(s.FlavorID, spec.FlavorID) &&
		same(s.Group, spec.Group)
}

func instanceOf(s reconfigure.Server, spec reconfigure.Spec) reconfigure.Instance {
	return reconfigure.Instance{Node: s.Node, ID: s.ID, Address: s.Address, Made: spec}
}

// conclude gives each call its result after Terraform has ended.
func (t *run) conclude(
	ctx context.Context, preview reconfigure.Preview, deliveries []*delivery, failures reconfigure.Failures, err error,
) (again bool) {
	if err != nil {
		// The result of the calls that were not delivered is unknown.
		t.failAll(t.open(), err)
		for _, d := range deliveries {
			d.on(fails)
		}
		t.afterInterrupt(ctx, given(deliveries))
		return false
	}
	var cut, rest []*delivery
	untried := reconfigure.Failures{}
	for _, d := range deliveries {
		node, before := d.call.In.node(), d.state
		failure := failures[node]
		d.on(verdictOf(failure))
		switch {
		case failure == nil:
			d.settled <- nil
			if before == asked {
				rest = append(rest, d)
			}
		case errors.Is(failure, reconfigure.ErrInterrupted), d.state.given():
			cut = append(cut, d)
		case errors.Is(failure, reconfigure.ErrUntried):
			untried[node] = failure
		default:
			failure = t.explain(ctx, node, failure)
			d.settled <- failure
			d.call.Finish(Result{}, t.refused(d, failure))
		}
	}
	if t.finishRest(ctx, rest); len(untried) == len(failures) && len(untried) > 0 {
		t.failSome(t.open(), untried) // no node is the cause, and further passes would never end
		untried = nil
	}
	t.afterInterrupt(ctx, cut)
	return len(untried) > 0 || len(t.forget) > 0 || len(cut) > 0 && len(t.open()) > 0
}

// given returns the deliveries whose callers already have their results.
func given(deliveries []*delivery) []*delivery {
	return slices.DeleteFunc(slices.Clone(deliveries), func(d *delivery) bool { return !d.state.given() })
}

// finishRest gives results to the calls that Terraform has finished and that were not delivered yet.
func (t *run) finishRest(ctx context.Context, rest []*delivery) {
	shared := slices.ContainsFunc(t.batch.Calls, func(c *call) bool { return c.In.target() == nil && !c.Finished() })
	if len(rest) == 0 && !shared {
		return
	}
	state, err := t.terraform.State(ctx)
	for _, c := range t.batch.Calls {
		if c.In.target() == nil {
			c.Finish(Result{}, err)
		}
	}
	if err != nil {
		for _, d := range rest {
			d.call.Finish(Result{}, err)
		}
		return
	}
	t.Found(state.Instances)
	for _, d := range rest {
		node := d.call.In.node()
		instance, there := state.Instances[node]
		removed := d.call.In.change().Action == reconfigure.Remove
		switch {
		case removed && there:
			d.call.Finish(Result{}, errors.New("its instance is still in Terraform's state"))
		case !removed && !there:
			d.call.Finish(Result{}, errors.New("it was made, but Terraform's state does not have it"))
		default:
			d.call.Finish(Result{Instance: instance}, nil)
		}
	}
}

// explain puts the cloud's fault before Terraform's error, which only says that the instance is in ERROR. The class is
// then that of the fault.
func (t *run) explain(ctx context.Context, node string, err error) error {
	servers, unseen := t.serversOfNode(ctx, node)
	if unseen != nil || len(servers) == 0 {
		return err
	}
	newest := servers[len(servers)-1]
	fault := newest.Fault
	if fault.Words == "" && newest.Failed() {
		if fault, unseen = t.deps.Cloud.Fault(ctx, newest.ID); unseen != nil {
			return err
		}
	}
	return withFault(err, fault)
}

// afterInterrupt completes an interrupted run: it adopts instances that the cloud has as requested, and waits,
// concurrently with later runs, for those that the cloud is still making or removing. The next run carries out the
// changes that Terraform did not begin.
func (t *run) afterInterrupt(ctx context.Context, cut []*delivery) {
	if len(cut) == 0 {
		return
	}
	servers := map[string]reconfigure.Server{}
	plan := reconfigure.Plan{Desired: map[string]reconfigure.Spec{}}
	var rest []*delivery
	all, err := t.Servers(ctx, nodesOf(cut))
	for _, d := range cut {
		node := d.call.In.node()
		if err == nil && !d.state.given() && d.early {
			t.deliver(d, all[node])
		}
		switch {
		case d.state == gone:
			t.forget = append(t.forget, d)
		case d.state == delivered:
			servers[node] = d.server
			plan.Changes = append(plan.Changes, d.call.In.change())
		case d.state == cutOff && d.early && d.pending(all[node]):
			rest = append(rest, d)
		}
	}
	if len(servers) > 0 {
		t.adoptAll(ctx, plan, servers, cut)
	}
	for _, d := range rest {
		t.batch.Detach(d.call)
		t.Under.Go(func() { t.follow(d) })
	}
}

// pending reports whether the cloud is still carrying out a change, or the first half of a replacement.
func (d *delivery) pending(servers []reconfigure.Server) bool {
	_, comes := d.renewed(servers)
	removes := d.effect == reconfigure.EffectDelete || d.effect == reconfigure.EffectReplace
	return comes || removes && d.old(servers)
}

// forgotten finishes the calls whose instance is gone, after a run in which Terraform's state could notice it; err says
// why it could not.
func (t *run) forgotten(err error) {
	for _, d := range t.forget {
		d.settled <- err
	}
	t.forget = nil
}

// forgets reports whether a node's instance is gone, but still in Terraform's state.
func (t *run) forgets(node string) bool {
	return slices.ContainsFunc(t.forget, func(d *delivery) bool { return d.call.In.node() == node })
}

// halfDone reports whether the old instance of a replacement is gone, and the new one was not requested yet: the
// provider sleeps before it polls.
func (d *delivery) halfDone(servers []reconfigure.Server) bool {
	_, comes := d.renewed(servers)
	return d.effect == reconfigure.EffectReplace && !comes && !d.old(servers)
}

// follow waits until the cloud has finished an interrupted change, as long as its caller waits, and then brings
// Terraform's state up to date. If only the old instance of a replacement is gone, it requests the new one again. It
// requests a removal again after some time, since an interrupt can come before the provider has requested it from the
// cloud.
func (t *Shard) follow(d *delivery) {
	overdue := reconfigure.Classify(
		reconfigure.ClassBoot, fmt.Errorf("its instance is not ACTIVE after %s", t.Timing.Build),
	)
	ctx, cancel := context.WithTimeoutCause(d.call.Context(), t.Timing.Build, overdue)
	defer cancel()
	p := d.call.In
	again := time.Now().Add(t.Timing.Straggler << p.again)
	for !d.call.Finished() {
		servers, err := t.serversOfNode(t.ctx, d.call.In.node())
		if err == nil && t.deliver(d, servers) {
			break
		}
		_, comes := d.renewed(servers)
		if err == nil && !comes && (!d.pending(servers) || time.Now().After(again)) {
			p.again++
			d.call.Finish(t.calls.Do(d.call.Context(), p))
			return
		}
		if sleep.For(ctx, t.Timing.Poll) != nil {
			d.on(expires)
			d.call.Finish(Result{}, context.Cause(ctx))
			return
		}
	}
	switch d.state {
	case gone: // the order again, which updates the state
	case delivered:
		p.Order = Take{Target: *p.target(), Server: d.server}
	default:
		return
	}
	d.settled <- t.updating(t.ctx, func() error {
		_, err := t.calls.Do(t.ctx, p)
		return err
	})
}

// updating updates Terraform's state after an interrupted run, and repeats that if it fails.
func (s *Shard) updating(ctx context.Context, update func() error) error {
	for tries := 1; ; tries++ {
		err := update()
		if err == nil || tries == updates || sleep.For(ctx, s.Timing.Poll) != nil {
			return err
		}
	}
}

// withFault puts the cloud's fault before an error.
func withFault(err error, fault reconfigure.Fault) error {
	if fault.Words == "" {
		return err
	}
	if reconfigure.ClassOf(err) == reconfigure.ClassOther {
		err = reconfigure.Classify(fault.Class, err)
	}
	return fmt.Errorf("%s: %w", trimmed(fault.Words), err)
}
