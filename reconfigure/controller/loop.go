package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// controller is one process's work while it holds the lease. Its fields belong to the loop.
type controller struct {
	Config
	ctx    context.Context // ends with the lease
	outage *outage
	events chan func() // what happened elsewhere, to be noted by the loop
	wait   sync.WaitGroup

	operator *operation.Operator
	requests map[reconfigure.RequestID]*progress
	order    []reconfigure.RequestID
	newest   reconfigure.RequestID // of those that were read
	seen     int64                 // Changed, when the requests were read
	read     bool
	paused   bool

	underWay nodeset.NodeSet
	alone    bool                    // a plan that concerns every node is under way
	first    []reconfigure.RequestID // these want to be alone, and begin before anything else does

	longest time.Duration // how long requests that come together are waited for at most
	looking bool
	due     time.Time // when deferred requests are planned again
	pauses  *backoff.ExponentialBackOff
	retry   time.Time // until then the journal is left alone

	comparing bool
	compare   time.Time // when the sources are compared next
	watches   bool      // and whether they are, ever
}

func newController(ctx context.Context, config Config, outage *outage) *controller {
	if config.Timing == (operation.Timing{}) {
		config.Timing = operation.DefaultTiming()
	}
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval = again, 2*time.Minute // an administrator who has repaired something does not want to wait long
	return &controller{
		Config: config, ctx: ctx, outage: outage, events: make(chan func(), 64), requests: map[reconfigure.RequestID]*progress{}, pauses: p, longest: config.Timing.Longest,
		watches: config.Reconcile != nil,
	}
}

// loop works until nothing is left, the lease is lost or ctx ends.
func (c *controller) loop() error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if err := c.step(); err != nil {
			if c.ctx.Err() != nil || errors.Is(err, reconfigure.ErrLeaseLost) {
				return err
			}
			rest, err := c.outage.next(c.ctx, err)
			if err != nil {
				return err
			}
			c.retry = time.Now().Add(rest)
		}
		if c.idle() {
			return nil
		}
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case note := <-c.events:
			note()
			c.drain()
		case <-ticker.C:
		}
	}
}

// drain notes all that has happened, so that it is written down together.
func (c *controller) drain() {
	for {
		select {
		case note := <-c.events:
			note()
		default:
			return
		}
	}
}

// tell hands something that happened to the loop, from any goroutine.
func (c *controller) tell(note func()) {
	select {
	case c.events <- note:
	case <-c.ctx.Done():
	}
}

// stop waits for what was started: Terraform and Ansible are ended gracefully.
func (c *controller) stop() {
	if c.operator != nil {
		c.operator.Wait()
	}
	c.wait.Wait()
}

// step writes down what has changed, reads the requests, and begins what may begin.
func (c *controller) step() error {
	if time.Now().Before(c.retry) {
		return nil
	}
	if err := c.write(); err != nil {
		return err
	}
	if err := c.readRequests(); err != nil {
		return err
	}
	c.outage.over()
	c.startReconcile()
	c.startLook()
	return nil
}

// idle reports whether nothing is left to stay for.
func (c *controller) idle() bool {
	if c.looking || c.comparing || !c.underWay.Empty() || !c.read || time.Now().Before(c.retry) {
		return false
	}
	if c.replaced() {
		return true
	}
	unasked := c.paused && c.compare.IsZero() // it is not asked in a pause; whoever ends that starts a worker
	if c.Stay || c.watches && !unasked && !c.Once {
		return false
	}
	if c.paused || len(c.requests) == 0 {
		return true
	}
	first := func(r reconfigure.Request) bool { return !c.requests[r.ID].planned }
	return c.Once && len(Next(c.pending(), busy{}, first).Together) == 0
}

// readRequests brings the requests up to date, if any has come or was taken back.
func (c *controller) readRequests() error {
	changed, err := c.Journal.Changed(c.ctx)
	if err != nil {
		return err
	}
	_, paused, err := c.Journal.Paused(c.ctx)
	if err != nil {
		return err
	}
	if c.paused = paused; c.read && changed == c.seen {
		return nil
	}
	pending, err := c.Journal.Pending(c.ctx)
	if err != nil {
		return err
	}
	c.read, c.seen = true, changed
	c.note(pending)
	c.order = c.order[:0]
	there := map[reconfigure.RequestID]bool{}
	for _, r := range pending {
		there[r.ID] = true
		c.order = append(c.order, r.ID)
		if c.requests[r.ID] == nil {
			c.requests[r.ID] = newProgress(r)
			c.due = time.Time{} // one that was deferred by an earlier worker is looked at at once
		}
		c.requests[r.ID].Touched = r.Touched
	}
	maps.DeleteFunc(c.requests, func(id reconfigure.RequestID, _ *progress) bool { return !there[id] })
	return nil
}

// note notes how far the requests were read.
func (c *controller) note(pending []reconfigure.Request) {
	for _, r := range pending {
		c.newest = max(c.newest, r.ID)
	}
}

// pending is the requests without an outcome, oldest first, with what is known of them.
func (c *controller) pending() []reconfigure.Request {
	var all []reconfigure.Request
	for _, id := range c.order {
		if p := c.requests[id]; p != nil {
			all = append(all, p.request())
		}
	}
	return all
}

// write writes down outcomes and deferrals that are new.
func (c *controller) write() error {
	var ended, deferred []reconfigure.Outcome
	for _, id := range c.order {
		p := c.requests[id]
		if p == nil || !p.changed {
			continue
		}
		o := p.outcome()
		if p.ended() {
			o.Finished = time.Now()
			ended = append(ended, o)
		} else if len(o.Deferred)+len(o.Verdicts) > 0 {
			deferred = append(deferred, o)
		}
	}
	if len(deferred)+len(ended) == 0 {
		return nil
	}
	if c.Flush != nil { // whoever sees a verdict is to see what led to it
		if err := c.Flush(c.ctx); err != nil {
			return err
		}
	}
	if len(deferred) > 0 {
		if err := c.Journal.Defer(c.ctx, deferred...); err != nil {
			return err
		}
	}
	if len(ended) > 0 {
		if err := c.Journal.Finish(c.ctx, ended...); err != nil {
			return err
		}
	}
	for _, o := range slices.Concat(deferred, ended) {
		c.requests[o.Request].changed = false
		c.logOutcome(o)
	}
	for _, o := range ended {
		delete(c.requests, o.Request)
	}
	return nil
}

// startLook takes a snapshot for the requests that may begin, and plans, beside the loop.
func (c *controller) startLook() {
	if c.looking || c.paused || c.replaced() {
		return
	}
	now := time.Now()
	next := Next(c.candidates(), busy{c.underWay, c.alone}, func(r reconfigure.Request) bool {
		return c.requests[r.ID].ready(!now.Before(c.due))
	})
	var arrivals []reconfigure.Request
	for _, r := range next.Together {
		arrivals = append(arrivals, c.requests[r.ID].arrival())
	}
	if len(arrivals) == 0 || window(arrivals, min(c.Timing.Quiet, c.longest), c.longest, now) > 0 {
		return
	}
	c.looking = true
	requests := next.Together
	c.wait.Go(func() {
		l := c.look(requests)
		c.tell(func() { c.looked(l, next) })
	})
}

// candidates is the requests that may begin: those that want to be alone before all others.
func (c *controller) candidates() []reconfigure.Request {
	c.first = slices.DeleteFunc(c.first, func(id reconfigure.RequestID) bool { return c.requests[id] == nil })
	switch {
	case len(c.first) == 0:
		return c.pending()
	case !c.underWay.Empty():
		return nil
	}
	return slices.DeleteFunc(c.pending(), func(r reconfigure.Request) bool { return !slices.Contains(c.first, r.ID) })
}

// planned is what a look came to.
type planned struct {
	requests []reconfigure.Request
	site     Site
	seen     snapshot.Snapshot
	plan     reconfigure.Plan
	err      error // why nothing could be planned
}

// look takes a snapshot and plans. It changes nothing.
func (c *controller) look(requests []reconfigure.Request) planned {
	l := planned{requests: requests}
	if l.site, l.err = c.Open(c.ctx); l.err != nil {
		return l
	}
	l.seen, l.err = l.site.Observe(c.ctx, Scope(l.site.Cluster, requests))
	if reason, missing := l.seen.Missing[snapshot.Terraform]; missing && l.err == nil {
		l.err = errors.New(reason)
	}
	if l.err == nil {
		l.plan = plan.Compute(l.site.Cluster, l.seen, requests)
	}
	if l.err == nil && l.plan.Everywhere && l.site.Conf != nil {
		if l.seen.Conf, l.err = l.site.Conf(c.ctx, l.seen); l.err == nil {
			l.plan = plan.Compute(l.site.Cluster, l.seen, requests)
		}
	}
	return l
}

// Scope is what a plan for some requests must know.
func Scope(cluster reconfigure.Cluster, requests []reconfigure.Request) snapshot.Scope {
	scope := snapshot.Scope{Sources: func(states map[string]reconfigure.NodeState) []reconfigure.Source {
		return plan.Sources(cluster, states, requests)
	}}
	for _, r := range requests {
		if whole(r.Mode) || resizes(r.Mode) {
			scope.Nodes = nodeset.NodeSet{}
			return scope
		}
		scope.Nodes = scope.Nodes.Union(r.Open())
	}
	return scope
}

// looked begins what was planned.
func (c *controller) looked(l planned, next Selection) {
	c.looking = false
	if c.ctx.Err() != nil {
		return
	}
	if l.site.Observe != nil {
		c.longest = l.site.Cluster.Settings.Gather
	}
	if slices.ContainsFunc(l.requests, func(r reconfigure.Request) bool { return c.requests[r.ID] == nil }) {
		return // one was taken back meanwhile: the others are planned without it
	}
	if l.err != nil {
		c.unplanned(l)
		return
	}
	c.pauses.Reset()
	c.due = time.Now().Add(again)
	alone := l.plan.Everywhere || l.plan.Shared
	if alone && !c.underWay.Empty() {
		c.first = ids(l.requests)
		c.due = time.Time{}
		return
	}
	if err := c.begin(l, next, alone); err != nil {
		if c.read = false; c.ctx.Err() == nil && !errors.Is(err, reconfigure.ErrLeaseLost) {
			// A pause, or a request that was taken back, shows at the next look into the journal; else it is the journal itself.
			c.Log.WarnContext(c.ctx, "a plan could not be begun, and is made again", "reason", err.Error())
			c.retry = time.Now().Add(look)
		}
	}
}

// begin writes the plan down and starts its operations.
func (c *controller) begin(l planned, next Selection, alone bool) error {
	round := operation.Round{Cluster: l.site.Cluster, Seen: l.seen, Plan: l.plan}
	if starts(l.plan) || len(next.Undone) > 0 {
		named := served(l.requests, l.plan)
		if len(named) == 0 { // what undoes a request has nothing else to do
			named = l.requests
		}
		number, err := c.Journal.Begin(c.ctx, ids(named), next.Undone...)
		if err != nil {
			return err
		}
		round.Number = number
	}
	c.first = nil
	for _, r := range l.requests {
		c.Log.InfoContext(c.ctx, "request planned", "request", r.ID, "mode", r.Mode, "nodes", r.Nodes, "caller", r.Caller, "plan", round.Number)
		c.requests[r.ID].begin(r.Open(), l.plan)
	}
	for _, o := range next.Undone {
		delete(c.requests, o.Request)
	}
	if !starts(l.plan) {
		return nil
	}
	if c.operator == nil {
		c.operator = operation.New(c.ctx, l.site.Cluster, l.site.Deps, c.Timing)
	} else {
		c.operator.Use(l.site.Cluster, l.site.Deps)
	}
	for _, p := range c.requests {
		c.underWay = c.underWay.Union(p.underWay)
	}
	c.alone = alone
	c.operator.Start(round, func(v reconfigure.Verdict) { c.tell(func() { c.ended(v) }) })
	return nil
}

// served is the requests that a plan has operations for: from then on something may have been done for them.
func served(requests []reconfigure.Request, p reconfigure.Plan) []reconfigure.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r reconfigure.Request) bool {
		changes := slices.ContainsFunc(p.Changes, func(c reconfigure.Change) bool { return slices.Contains(c.Requests, r.ID) })
		rejected := slices.ContainsFunc(p.Rejected, func(x reconfigure.Rejection) bool { return x.Awaited && x.Request == r.ID })
		return !p.Shared && !changes && !rejected
	})
}

// starts reports whether a plan has operations.
func starts(p reconfigure.Plan) bool {
	return p.Shared || len(p.Changes) > 0 || slices.ContainsFunc(p.Rejected, func(r reconfigure.Rejection) bool { return r.Awaited })
}

// ended notes the verdict of an operation.
func (c *controller) ended(v reconfigure.Verdict) {
	c.underWay = c.underWay.Difference(nodeset.Of(v.Node))
	if c.underWay.Empty() {
		c.alone = false
	}
	for _, p := range c.requests {
		if !p.underWay.Contains(v.Node) {
			continue
		}
		if v.Action == reconfigure.Drain && !p.drained.Contains(v.Node) {
			// The node may have no jobs at all. One that does not stay drained waits for its turn.
			c.due, p.drained = time.Time{}, p.drained.Union(nodeset.Of(v.Node))
		}
		p.end(v)
	}
}

// unplanned defers requests that cannot be planned, or has them fail.
func (c *controller) unplanned(l planned) {
	for _, r := range l.requests {
		p := c.requests[r.ID]
		if !p.underWay.Empty() { // the rest of it is planned again later
			continue
		}
		o := unplanned(r, l.site.Cluster, time.Now(), l.err)
		p.planned = true
		if p.changed = true; o.Code != "" {
			p.code, p.failed = o.Code, o.Error
			continue
		}
		p.changed = !slices.Equal(p.deferred, o.Deferred)
		p.deferred = o.Deferred
	}
	c.due = time.Now().Add(c.pauses.NextBackOff())
}

// startReconcile compares the sources when it is time for that, beside the loop: it waits for nobody.
func (c *controller) startReconcile() {
	if c.Reconcile == nil || c.comparing || c.paused || c.Once || time.Now().Before(c.compare) || !c.watches || c.replaced() {
		return
	}
	c.comparing = true
	c.wait.Go(func() {
		next, ok := c.Reconcile(c.ctx)
		c.tell(func() {
			c.comparing, c.watches = false, ok
			c.compare = time.Now().Add(next)
			c.read = false
		})
	})
}

// logOutcome leaves in the log what became of a request.
func (c *controller) logOutcome(o reconfigure.Outcome) {
	for _, d := range o.Deferred {
		c.Log.InfoContext(c.ctx, "request deferred", "request", o.Request, "node", d.Node, "kind", d.Kind, "reason", d.Reason)
	}
	switch {
	case len(o.Deferred) > 0 || o.Finished.IsZero():
	case o.Error != "":
		c.Log.ErrorContext(c.ctx, "request failed", "request", o.Request, "reason", o.Error)
	default:
		c.Log.InfoContext(c.ctx, "request ended", "request", o.Request, "code", o.Code)
		for _, v := range o.Verdicts {
			c.Log.InfoContext(c.ctx, fmt.Sprintf("node %s", v.Status), "request", o.Request, "node", v.Node, "action", v.Action, "reason", v.Reason)
		}
	}
}

func ids(requests []reconfigure.Request) []reconfigure.RequestID {
	all := make([]reconfigure.RequestID, len(requests))
	for i, r := range requests {
		all[i] = r.ID
	}
	return all
}
