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
	events chan func() // calls from other goroutines, executed by the loop
	wait   sync.WaitGroup

	operator  *operation.Operator
	interrupt context.CancelFunc // ends the operator and its operations
	dropping  bool               // the operations were told to end, since a destroy waits

	requests map[reconfigure.RequestID]*progress
	queue    queue
	retry    time.Time // the next attempt after an error of the journal

	underWay map[string]work // by node
	alone    bool            // a plan that concerns every node is in progress
	first    first
	endless  time.Time // when the last operation without a limit has ended

	resumeTimeout time.Duration
	longest       time.Duration // the longest wait for requests that arrive together
	planning      planning
	campaign      campaign
	checked       checked // the last search for suspended nodes
	comparison    comparison
}

// queue is the last read of the requests.
type queue struct {
	order  []reconfigure.RequestID
	newest reconfigure.RequestID // the newest request that was read
	seen   int64                 // Journal.Changed at the last read
	read   bool
	paused bool
}

// planning has the times at which requests are planned.
type planning struct {
	working bool      // a snapshot is taken, or a plan is made from it
	due     time.Time // when deferred requests are planned again
	waits   waits     // the last plan, if all nodes wait for their jobs
	pauses  *backoff.ExponentialBackOff
}

// comparison has the times at which the sources are compared.
type comparison struct {
	working bool
	due     time.Time // when they are compared next
	watches bool      // whether they are compared at all
}

// first is a change of size whose plan concerns every node; the zero value: none is known.
type first struct {
	id    reconfigure.RequestID
	since time.Time // when that became known
}

// checked is the last search of the requests for nodes that were suspended.
type checked struct {
	newest reconfigure.RequestID
	again  time.Time // when to search again
}

// campaign is the loop's state of the campaign.
type campaign struct {
	working bool      // a step is in progress
	asked   bool      // a step was made since the last change
	stays   bool      // there is more to do
	due     time.Time // when the next step is due
}

func newController(ctx context.Context, config Config, outage *outage) *controller {
	if config.Timing == (operation.Timing{}) {
		config.Timing = operation.DefaultTiming()
	}
	p := backoff.NewExponentialBackOff()
	// short, so that a repair by an administrator soon has an effect
	p.InitialInterval, p.MaxInterval = again, 2*time.Minute
	return &controller{
		Config: config, ctx: ctx, outage: outage, events: make(chan func(), 64),
		requests: map[reconfigure.RequestID]*progress{}, underWay: map[string]work{}, planning: planning{pauses: p},
		resumeTimeout: longestResume, longest: config.Timing.Longest,
		comparison: comparison{watches: config.Reconcile != nil},
	}
}

// loop works until nothing is left, the lease is lost or ctx ends.
func (c *controller) loop() error {
	ticker := time.NewTicker(poll)
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

// drain executes all waiting calls, so that their results are written together.
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

// tell passes a call to the loop, from any goroutine.
func (c *controller) tell(note func()) {
	select {
	case c.events <- note:
	case <-c.ctx.Done():
	}
}

// stop waits until everything that was started has ended.
func (c *controller) stop() {
	if c.operator != nil {
		c.operator.Wait()
	}
	c.wait.Wait()
}

// step writes changes, reads the requests, and begins those that may begin.
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
	c.makeWay()
	c.startReconcile()
	c.startCampaign()
	c.endSuspended()
	c.startPlanning()
	return nil
}

// idle reports whether there is nothing to do or to wait for.
func (c *controller) idle() bool {
	switch {
	case c.working():
		return false
	case c.replaced():
		return true
	case c.Stay, c.campaignGoesOn(), c.comparisonGoesOn():
		return false
	case c.queue.paused, len(c.requests) == 0:
		return true
	}
	unplanned := func(r reconfigure.Request) bool { return !c.requests[r.ID].planned }
	return c.Once && len(Next(c.pending(), busy{}, unplanned).Together) == 0
}

// working reports whether something is in progress, or is not read or written yet.
func (c *controller) working() bool {
	return c.planning.working || c.dropping || c.comparison.working || c.campaign.working || len(c.underWay) > 0 ||
		!c.queue.read || time.Now().Before(c.retry) || c.unwritten()
}

// campaignGoesOn reports whether the campaign has a next step. In a pause it has none.
func (c *controller) campaignGoesOn() bool {
	return c.Campaign != nil && !c.queue.paused && (!c.campaign.asked || c.campaign.stays && !c.Once)
}

// comparisonGoesOn reports whether the sources are compared again. Nothing is compared in a pause; the call that ends
// it starts a worker.
func (c *controller) comparisonGoesOn() bool {
	unasked := c.queue.paused && c.comparison.due.IsZero()
	return c.comparison.watches && !unasked && !c.Once
}

// readRequests reads the requests again, if any has come or was cancelled.
func (c *controller) readRequests() error {
	changed, err := c.Journal.Changed(c.ctx)
	if err != nil {
		return err
	}
	_, paused, err := c.Journal.Paused(c.ctx)
	if err != nil {
		return err
	}
	if c.queue.paused = paused; c.queue.read && changed == c.queue.seen {
		return nil
	}
	pending, err := c.Journal.Pending(c.ctx)
	if err != nil {
		return err
	}
	if changed != c.queue.seen {
		c.campaign.asked, c.campaign.due = false, time.Time{}
	}
	c.queue.read, c.queue.seen = true, changed
	c.note(pending)
	c.queue.order = c.queue.order[:0]
	there := map[reconfigure.RequestID]bool{}
	for _, r := range pending {
		there[r.ID] = true
		c.queue.order = append(c.queue.order, r.ID)
		if c.requests[r.ID] == nil {
			c.requests[r.ID] = newProgress(r)
			c.planning.due = time.Time{} // plan requests that an earlier worker deferred at once
		}
		c.requests[r.ID].Touched = r.Touched
	}
	maps.DeleteFunc(c.requests, func(id reconfigure.RequestID, _ *progress) bool { return !there[id] })
	return nil
}

// note records how far the requests were read.
func (c *controller) note(pending []reconfigure.Request) {
	for _, r := range pending {
		c.queue.newest = max(c.queue.newest, r.ID)
	}
}

// pending returns the requests without an outcome, oldest first, with their progress.
func (c *controller) pending() []reconfigure.Request {
	var all []reconfigure.Request
	for _, id := range c.queue.order {
		if p := c.requests[id]; p != nil {
			all = append(all, p.request())
		}
	}
	return all
}

// write stores new outcomes at once, and the changed verdicts and deferrals of requests without an outcome at most once
// in writeAgain. Each write has all verdicts of a request, so nodes that end one after another are stored together.
func (c *controller) write() error {
	var ended, deferred []reconfigure.Outcome
	now := time.Now()
	for _, id := range c.queue.order {
		p := c.requests[id]
		if p == nil || !p.changed || !p.ended() && now.Sub(p.written) < writeAgain {
			continue
		}
		o := p.outcome()
		if p.ended() {
			o.Finished = now
			ended = append(ended, o)
		} else if len(o.Deferred)+len(o.Verdicts) > 0 {
			deferred = append(deferred, o)
		}
	}
	if len(deferred)+len(ended) == 0 {
		return nil
	}
	if c.Flush != nil { // events before the verdicts that they lead to
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
		c.requests[o.Request].changed, c.requests[o.Request].written = false, now
		c.logOutcome(o)
	}
	for _, o := range ended {
		if whole(c.requests[o.Request].Mode) { // a destroy ends the comparisons, and a deploy begins them
			c.comparison.due, c.comparison.watches = time.Time{}, c.Reconcile != nil
		}
		delete(c.requests, o.Request)
		c.campaign.asked, c.campaign.due = false, time.Time{}
	}
	return nil
}

// unwritten reports whether verdicts or deferrals are not stored yet.
func (c *controller) unwritten() bool {
	for _, p := range c.requests {
		if p.changed && len(p.deferred)+len(p.verdicts) > 0 {
			return true
		}
	}
	return false
}

// startPlanning takes a snapshot for the requests that may begin, and plans, in another goroutine.
func (c *controller) startPlanning() {
	if c.planning.working || c.dropping || c.queue.paused || c.replaced() {
		return
	}
	now, pending := time.Now(), c.pending()
	ready := func(r reconfigure.Request) bool { return c.requests[r.ID].ready(r, !now.Before(c.planning.due)) }
	mayBegin := func(r reconfigure.Request) bool { return ready(r) || whole(r.Mode) || r.ID == c.first.id }
	if !slices.ContainsFunc(pending, mayBegin) {
		return // as in most steps, without the work of Next
	}
	next := Next(pending, c.busy(pending, now), ready)
	var arrivals []reconfigure.Request
	for _, r := range next.Together {
		arrivals = append(arrivals, c.requests[r.ID].arrival())
	}
	if len(arrivals) == 0 || window(arrivals, min(c.Timing.Quiet, c.longest), c.longest, now) > 0 {
		return
	}
	c.planning.working = true
	requests, before, underWay := next.Together, c.planning.waits, c.nodes()
	c.wait.Go(func() {
		if before.covers(requests, now) && before.last(c.ctx) {
			c.tell(func() { c.planning.working, c.planning.due = false, time.Now().Add(again) })
			return
		}
		l := c.plan(requests, underWay)
		c.tell(func() { c.beginPlanned(l, next) })
	})
}

// planned is the result of planning.
type planned struct {
	requests []reconfigure.Request
	site     Site
	seen     snapshot.Snapshot
	plan     reconfigure.Plan
	err      error // the reason why nothing could be planned
}

// plan takes a snapshot and plans. It changes nothing.
func (c *controller) plan(requests []reconfigure.Request, underWay nodeset.NodeSet) planned {
	l := planned{requests: requests}
	if l.site, l.err = c.Open(c.ctx); l.err != nil {
		return l
	}
	l.seen, l.err = l.site.Observe(c.ctx, Scope(l.site.Cluster, requests))
	l.seen.UnderWay = underWay
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

// Scope returns the scope of the snapshot for a plan of these requests. If earlier operations were begun for a
// request, the plan needs their last phases; for an update, whether the instances have ever booted.
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
		if r.Touched && (r.Mode == reconfigure.Resume || r.Mode == reconfigure.Update) {
			scope.Requests = append(scope.Requests, r.ID)
		}
		scope.Lives = scope.Lives || r.Mode == reconfigure.Update
		scope.Servers = scope.Servers || r.Mode == reconfigure.Suspend && stopsUntilAge(cluster)
	}
	return scope
}

// stopsUntilAge reports whether a group keeps stopped instances up to an age. The cloud knows their age.
func stopsUntilAge(cluster reconfigure.Cluster) bool {
	return slices.ContainsFunc(cluster.Groups, func(g reconfigure.NodeGroup) bool {
		return g.MaxAge > 0 && g.WhenIdle.Power() != ""
	})
}

// beginPlanned begins what was planned.
func (c *controller) beginPlanned(l planned, next Selection) {
	c.planning.working, c.planning.waits = false, waits{}
	if c.ctx.Err() != nil || c.dropping {
		return
	}
	if l.site.Observe != nil {
		c.longest = l.site.Cluster.Settings.Gather
		c.resumeTimeout = l.site.Cluster.Slurm.ResumeTimeout
	}
	if slices.ContainsFunc(l.requests, func(r reconfigure.Request) bool { return c.requests[r.ID] == nil }) {
		return // a request was cancelled meanwhile: the others are planned again without it
	}
	if l.err != nil {
		c.unplanned(l)
		return
	}
	c.planning.pauses.Reset()
	c.planning.due = time.Now().Add(again)
	alone := l.plan.Everywhere || l.plan.Shared
	if alone && len(c.underWay) > 0 {
		c.first = first{l.requests[0].ID, time.Now()} // admit plans a change of size alone
		return
	}
	if err := c.begin(l, next, alone); err != nil {
		if c.queue.read = false; c.ctx.Err() == nil && !errors.Is(err, reconfigure.ErrLeaseLost) {
			// The reason is a pause or a cancelled request, which the next read of the journal shows, or the journal failed.
			c.Log.WarnContext(c.ctx, "a plan could not be begun; planning again", "reason", err.Error())
			c.retry = time.Now().Add(poll)
		}
	}
}

// begin stores the plan and starts its operations.
func (c *controller) begin(l planned, next Selection, alone bool) error {
	round := operation.Round{Cluster: l.site.Cluster, Seen: l.seen, Plan: l.plan}
	if starts(l.plan) || len(next.Undone) > 0 {
		named := served(l.requests, l.plan)
		if len(named) == 0 { // there are only requests to undo
			named = l.requests
		}
		number, err := c.Journal.Begin(c.ctx, ids(named), next.Undone...)
		if err != nil {
			return err
		}
		round.Number = number
	}
	for _, r := range l.requests {
		if r.ID == c.first.id {
			c.first = first{}
		}
		c.Log.InfoContext(
			c.ctx, "request planned", "request", r.ID, "mode", r.Mode, "nodes", r.Nodes, "caller", r.Caller,
			"plan", round.Number,
		)
		c.requests[r.ID].begin(r.Open(), l.plan)
	}
	c.planning.waits = waitsOf(l)
	for _, o := range next.Undone {
		delete(c.requests, o.Request)
	}
	for _, id := range next.Superseded {
		c.requests[id].supersede(l.requests[0].ID)
	}
	if !starts(l.plan) {
		return nil
	}
	if c.operator == nil {
		var ctx context.Context
		ctx, c.interrupt = context.WithCancel(c.ctx)
		c.operator = operation.New(ctx, l.site.Cluster, l.site.Deps, c.Timing)
	} else {
		c.operator.Use(l.site.Cluster, l.site.Deps)
	}
	now := time.Now()
	for _, p := range c.requests {
		for node := range p.underWay.All() {
			if _, known := c.underWay[node]; !known {
				c.underWay[node] = work{now, lengthOf(l.plan, node)}
			}
		}
	}
	c.alone = alone
	c.operator.Start(round, func(v reconfigure.Verdict) { c.tell(func() { c.ended(v) }) })
	return nil
}

// served returns the requests for which a plan has operations. They can no longer be cancelled.
func served(requests []reconfigure.Request, p reconfigure.Plan) []reconfigure.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r reconfigure.Request) bool {
		changes := slices.ContainsFunc(p.Changes, func(c reconfigure.Change) bool {
			return slices.Contains(c.Requests, r.ID)
		})
		rejected := slices.ContainsFunc(p.Rejected, func(x reconfigure.Rejection) bool {
			return x.Awaited && x.Request == r.ID
		})
		return !p.Shared && !changes && !rejected
	})
}

// starts reports whether a plan has operations.
func starts(p reconfigure.Plan) bool {
	awaited := func(r reconfigure.Rejection) bool { return r.Awaited }
	return p.Shared || len(p.Changes) > 0 || slices.ContainsFunc(p.Rejected, awaited)
}

// ended adds the verdict of an operation to its requests.
func (c *controller) ended(v reconfigure.Verdict) {
	if c.underWay[v.Node].kind != limited {
		c.endless = time.Now()
	}
	delete(c.underWay, v.Node)
	if len(c.underWay) == 0 {
		c.alone = false
	}
	for _, p := range c.requests {
		if !p.underWay.Contains(v.Node) {
			continue
		}
		if v.Action == reconfigure.Drain && !p.drained.Contains(v.Node) {
			// The node may have no jobs. A node whose drain ended waits for its turn.
			c.planning.due, p.drained = time.Time{}, p.drained.Union(nodeset.Of(v.Node))
		}
		p.end(v)
	}
}

// unplanned defers requests that cannot be planned, or lets them fail.
func (c *controller) unplanned(l planned) {
	for _, r := range l.requests {
		p := c.requests[r.ID]
		if r.ID == c.first.id {
			c.first = first{} // the request is planned again with the others when it is due
		}
		if !p.underWay.Empty() { // the other nodes of the request are planned again later
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
	c.planning.due = time.Now().Add(c.planning.pauses.NextBackOff())
}

// makeWay ends the operations in progress if a destroy waits for them, since the nodes will not be used. The operations
// end as they do when a worker is told to end, without verdicts, and their requests are superseded when the destroy
// begins. If the destroy is cancelled before, they are planned again.
func (c *controller) makeWay() {
	if c.dropping || c.queue.paused || c.replaced() || len(c.underWay) == 0 {
		return
	}
	superseded := Superseded(c.pending())
	for id, p := range c.requests {
		if !p.underWay.Empty() && !slices.Contains(superseded, id) { // there is no destroy, it has begun, or an image is made
			return
		}
	}
	c.dropping = true
	c.Log.InfoContext(c.ctx, "operations end, since the cluster is to be destroyed", "nodes", c.nodes())
	operator := c.operator
	c.interrupt()
	c.wait.Go(func() {
		operator.Wait()
		c.tell(c.dropped)
	})
}

// dropped leaves the requests of operations that were interrupted to the next plan.
func (c *controller) dropped() {
	c.dropping, c.operator, c.alone, c.endless = false, nil, false, time.Now()
	clear(c.underWay)
	for _, p := range c.requests {
		p.interrupted()
	}
}

// startReconcile compares the sources when that is due, in another goroutine.
func (c *controller) startReconcile() {
	if c.Reconcile == nil || !c.comparison.watches || c.comparison.working || time.Now().Before(c.comparison.due) ||
		c.queue.paused || c.Once || c.replaced() {
		return
	}
	c.comparison.working = true
	c.wait.Go(func() {
		next, ok := c.Reconcile(c.ctx)
		c.tell(func() {
			c.comparison.working, c.comparison.watches = false, ok
			c.comparison.due = time.Now().Add(next)
			c.queue.read = false
		})
	})
}

// startCampaign advances the campaign when that is due, in another goroutine.
func (c *controller) startCampaign() {
	if c.Campaign == nil || c.campaign.working || c.queue.paused || time.Now().Before(c.campaign.due) || c.replaced() {
		return
	}
	c.campaign.working, c.campaign.asked = true, true
	c.campaign.due = time.Now().Add(poll) // unless something changes meanwhile
	c.wait.Go(func() {
		next, stays := c.Campaign(c.ctx)
		c.tell(func() {
			c.campaign.working, c.campaign.stays = false, stays
			if c.campaign.asked {
				c.campaign.due = time.Now().Add(next)
			}
			c.queue.read = false
		})
	})
}

// logOutcome logs the outcome or the deferrals of a request.
func (c *controller) logOutcome(o reconfigure.Outcome) {
	for _, d := range o.Deferred {
		c.Log.InfoContext(
			c.ctx, "request deferred", "request", o.Request, "node", d.Node, "kind", d.Kind, "reason", d.Reason,
		)
	}
	switch {
	case len(o.Deferred) > 0 || o.Finished.IsZero():
	case o.Error != "":
		c.Log.ErrorContext(c.ctx, "request failed", "request", o.Request, "reason", o.Error)
	default:
		c.Log.InfoContext(c.ctx, "request ended", "request", o.Request, "code", o.Code)
		for _, v := range o.Verdicts {
			c.Log.InfoContext(
				c.ctx, fmt.Sprintf("node %s", v.Status), "request", o.Request, "node", v.Node, "action", v.Action,
				"reason", v.Reason,
			)
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
