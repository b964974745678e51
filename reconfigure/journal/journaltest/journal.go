package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
)

// Setup is one journal, empty at first.
type Setup struct {
	// Open opens the journal again, as another process does, and closes it at the end of the test.
	Open func(t testing.TB) Journal
	// Lose takes the lease from its holder without telling it. It must not wait.
	Lose func(t testing.TB)
}

// Test checks the contract of a journal. New makes one for each rule.
func Test(t *testing.T, new func(t testing.TB) Setup) {
	for _, r := range []struct {
		name string
		rule func(journalRule)
	}{
		{"a request comes back as it was submitted", journalRule.requestComesBack},
		{"a request gets a time where it has none", journalRule.requestGetsTime},
		{"a request without a mode is refused", journalRule.modelessIsRefused},
		{"pending is what has no outcome, oldest first", journalRule.pendingIsOldestFirst},
		{"requests are newest first and at most as many as asked for", journalRule.requestsNewestFirst},
		{"a request has exactly one outcome", journalRule.oneOutcome},
		{"outcomes of one call are kept all or none", journalRule.finishAllOrNone},
		{"a deferred request is pending with its verdicts so far", journalRule.deferred},
		{"deferrals of one call are kept all or none", journalRule.deferAllOrNone},
		{"what is not touched can be taken back", journalRule.cancelled},
		{"a plan is for requests that are there and not finished", journalRule.beginsOpenRequests},
		{"a plan undoes what is not touched, or does not begin", journalRule.planUndoes},
		{"a pause lasts until it is ended", journalRule.paused},
		{"nothing begins when a pause has returned", journalRule.nothingBeginsInAPause},
		{"one has the lease at a time", journalRule.oneHolder},
		{"who has lost the lease cannot write", journalRule.loserIsFenced},
		{"events come back to the requests that they concern", journalRule.eventsConcern},
		{"events of every plan for a request are its events", journalRule.eventsOfAllPlans},
		{"events after another, and since a time", journalRule.eventsAfter},
		{"requests since a time, and their outcomes", journalRule.requestsSince},
		{"events of one call are recorded all or none", journalRule.recordAllOrNone},
		{"the newest event of each node", journalRule.lastMoves},
		{"evidence comes back by node and by request", journalRule.evidenceComesBack},
		{"what is old and finished is pruned", journalRule.pruned},
		{"what is not there is not found", journalRule.absentIsNotFound},
		{"a process that follows finds what the one before has left", journalRule.reopened},
		{"what others write is a change", journalRule.changed},
		{"many goroutines write at once", journalRule.manyGoroutines},
		{"a call with a context that has ended does nothing", journalRule.contextEnded},
		{"the map of nodes is kept, and adopted where there is none", journalRule.nodesAreKept},
		{"the cluster's id is adopted once", journalRule.identityStays},
		{"the newest declaration is known to all hosts", journalRule.newestDeclaration},
		{"host keys are kept by address, and forgotten ones are not adopted", journalRule.hostKeysAreKept},
		{"checksums are kept by node", journalRule.sumsAreKept},
		{"a campaign comes back as it was started", journalRule.campaignComesBack},
		{"one campaign has not ended at a time", journalRule.oneCampaignAtATime},
		{"a campaign and its requests are written together", journalRule.campaignSubmits},
		{"a campaign and its requests are kept all or none", journalRule.campaignAllOrNone},
		{"who has lost the lease cannot advance a campaign", journalRule.campaignIsFenced},
		{"a campaign that is started or advanced is a change", journalRule.campaignIsAChange},
		{"the life of an instance comes back as it is known last", journalRule.lifeComesBack},
		{"a node has one instance at a time", journalRule.oneLifeAtATime},
		{"what an earlier plan has made lives on", journalRule.lifeGoesOn},
		{"lives are kept all or none, by the holder of the lease", journalRule.livesAllOrNone},
		{"the run of a job comes back as it is known last", journalRule.jobRunComesBack},
		{"instances and jobs of a time are found by node, host, image and failure", journalRule.timelines},
		{"the pulse changes with each write that a person sees", journalRule.pulse},
		{"the requests for a job are found", journalRule.requestsForJobs},
		{"lives and jobs that ended are pruned", journalRule.usageIsPruned},
	} {
		t.Run(r.name, func(t *testing.T) {
			setup := new(t)
			r.rule(journalRule{t, setup.Open(t), setup})
		})
	}
	t.Run("health", func(t *testing.T) {
		operationtest.TestHealthStore(t, func(t *testing.T) operationtest.HealthStore { return new(t).Open(t) })
	})
}

// journalRule is one rule at its journal.
type journalRule struct {
	*testing.T
	Journal
	setup Setup
}

// asked compares only what requests ask for and what they wait for.
var asked = cmpopts.IgnoreFields(reconfigure.Request{}, "Touched")

func (j journalRule) noError(err error) {
	j.Helper()
	if err != nil {
		j.Fatal(err)
	}
}

func (j journalRule) wantError(want, err error) {
	j.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		j.Errorf("error %v, not %v", err, want)
	}
}

func (j journalRule) equal(what string, want, got any, options ...cmp.Option) {
	j.Helper()
	if d := cmp.Diff(want, got, append(options, cmpopts.EquateEmpty())...); d != "" {
		j.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (j journalRule) submit(nodes ...string) reconfigure.Request {
	j.Helper()
	return j.submitted(reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes...)})
}

func (j journalRule) submitted(r reconfigure.Request) reconfigure.Request {
	j.Helper()
	r, err := j.Submit(j.Context(), r)
	j.noError(err)
	return r
}

func (j journalRule) find(id reconfigure.RequestID) reconfigure.Request {
	j.Helper()
	r, ok, err := j.Request(j.Context(), id)
	if !ok || err != nil {
		j.Fatalf("request %s: %v, %v", id, ok, err)
	}
	return r
}

func (j journalRule) begin(requests ...reconfigure.Request) int64 {
	j.Helper()
	number, err := j.Begin(j.Context(), idsOf(requests...))
	j.noError(err)
	return number
}

func idsOf(requests ...reconfigure.Request) (ids []reconfigure.RequestID) {
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	return ids
}

func (j journalRule) pending() []reconfigure.Request {
	j.Helper()
	pending, err := j.Pending(j.Context())
	j.noError(err)
	return pending
}

func (j journalRule) eventsOf(r reconfigure.Request) []reconfigure.Event {
	j.Helper()
	events, err := j.Events(j.Context(), r.ID, 0)
	j.noError(err)
	return events
}

func (j journalRule) acquire() (release func() error) {
	j.Helper()
	release, ok, err := j.Acquire(j.Context())
	if !ok || err != nil {
		j.Fatalf("the lease is not free: %v, %v", ok, err)
	}
	return release
}

func (j journalRule) token() int64 {
	j.Helper()
	token, err := j.Changed(j.Context())
	j.noError(err)
	return token
}

// by returns the same rule in another process.
func (j journalRule) by(another Journal) journalRule {
	j.Journal = another
	return j
}

func done(r reconfigure.Request) reconfigure.Outcome {
	return reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}
}

// cannotPlan returns the outcome that is stored for a request that cannot be planned.
func cannotPlan(r reconfigure.Request) reconfigure.Outcome {
	d := reconfigure.Deferral{Request: r.ID, Kind: reconfigure.CannotPlan, Reason: "the state cannot be read"}
	return reconfigure.Outcome{Request: r.ID, Deferred: []reconfigure.Deferral{d}}
}

func noted(plan int64, node, message string) reconfigure.Event {
	return reconfigure.Event{
		Plan: plan, Node: node, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: message,
	}
}

func moved(plan int64, node, message string) reconfigure.Event {
	e := noted(plan, node, message)
	e.Level = reconfigure.Done
	return e
}

func collected(plan int64, node, text string) reconfigure.Evidence {
	return reconfigure.Evidence{
		Time: time.Unix(0, 1234).UTC(), Plan: plan, Node: node, Phase: reconfigure.PhaseBoot,
		Kind: reconfigure.WitnessConsole, Text: text,
	}
}

func (j journalRule) requestComesBack() {
	want := reconfigure.Request{
		Mode: reconfigure.Suspend, Nodes: nodeset.Of("node01", "node02", "gpu-7"),
		Reason: "line 1\nline 2 'quoted' «ü»", Caller: "slurm from 10.0.0.5",
		Jobs:      []reconfigure.Job{{ID: 42, Nodes: nodeset.Of("node01")}, {ID: 43}},
		Submitted: time.Date(2026, 2, 3, 4, 5, 6, 789, time.FixedZone("CET", 3600)),
		Options:   reconfigure.Options{Reimage: true, Image: "v2", FromSlurm: true, DrainTimeout: time.Hour},
	}
	got := j.submitted(want)
	if got.ID != 1 {
		j.Errorf("the first request has ID %s", got.ID)
	}
	want.ID, want.Submitted = got.ID, want.Submitted.UTC()
	j.equal("submitted", want, got)
	j.equal("found", want, j.find(got.ID))
}

func (j journalRule) requestGetsTime() {
	before := time.Now()
	got := j.submit("n1")
	if got.Submitted.Before(before) || got.Submitted.After(time.Now()) {
		j.Errorf("submitted at %s", got.Submitted)
	}
	if kept := j.find(got.ID).Submitted; kept.String() != got.Submitted.String() { // zone, no monotonic clock
		j.Errorf("Submit returned %s, and %s is kept", got.Submitted, kept)
	}
}

func (j journalRule) modelessIsRefused() {
	if r, err := j.Submit(j.Context(), reconfigure.Request{Nodes: nodeset.Of("n1")}); err == nil {
		j.Errorf("submitted %+v", r)
	}
	j.equal("pending", []reconfigure.Request(nil), j.pending())
}

func (j journalRule) pendingIsOldestFirst() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	j.begin(a, b)
	j.noError(j.Finish(j.Context(), done(b)))
	j.equal("pending", []reconfigure.Request{a, c}, j.pending(), asked)
}

func (j journalRule) requestsNewestFirst() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	j.noError(j.Finish(j.Context(), done(c)))
	all := []reconfigure.Request{c, b, a}
	for limit, want := range map[int][]reconfigure.Request{-1: nil, 0: nil, 2: all[:2], 3: all, 9: all} {
		got, err := j.Requests(j.Context(), limit)
		j.noError(err)
		j.equal(fmt.Sprint("at most ", limit), want, got)
	}
}

func (j journalRule) oneOutcome() {
	r := j.submit("n1", "n2")
	if _, ok, err := j.Outcome(j.Context(), r.ID); ok || err != nil {
		j.Fatalf("an outcome before there is one: %v, %v", ok, err)
	}
	want := reconfigure.Outcome{
		Request: r.ID, Code: reconfigure.CodePartial, Error: "some", Finished: time.Unix(1, 2).UTC(),
		Verdicts: []reconfigure.Verdict{
			{Node: "n1", Action: reconfigure.Create, Status: reconfigure.StatusDone},
			{Node: "n2", Status: reconfigure.StatusFailed, Phase: reconfigure.PhaseBoot, Reason: "no SSH"},
		},
	}
	j.noError(j.Finish(j.Context(), want))
	j.wantError(reconfigure.ErrFinished, j.Finish(j.Context(), done(r)))
	got, ok, err := j.Outcome(j.Context(), r.ID)
	j.noError(err)
	j.equal("there is an outcome", true, ok)
	j.equal("outcome", want, got)
	j.noError(j.Finish(j.Context()))
}

func (j journalRule) finishAllOrNone() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	j.noError(j.Finish(j.Context(), done(c)))
	j.wantError(reconfigure.ErrFinished, j.Finish(j.Context(), done(a), done(b), done(c)))
	j.wantError(reconfigure.ErrFinished, j.Finish(j.Context(), done(a), done(b), done(a)))
	if err := j.Finish(j.Context(), done(a), reconfigure.Outcome{Request: 99, Code: reconfigure.CodeDone}); err == nil {
		j.Error("an outcome of a request that is not there was kept")
	}
	j.equal("pending", []reconfigure.Request{a, b}, j.pending())
	j.noError(j.Finish(j.Context(), done(a), done(b)))
	j.equal("pending", []reconfigure.Request(nil), j.pending())
}

func (j journalRule) deferred() {
	r := j.submitted(reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("n1", "n2")})
	jobs := reconfigure.Deferral{Node: "n2", Request: r.ID, Kind: reconfigure.WaitsForJobs, Reason: "it has jobs"}
	slurm := reconfigure.Deferral{Node: "n2", Request: r.ID, Kind: reconfigure.SlurmUnreachable, Reason: "no answer"}
	want := r
	for _, o := range []reconfigure.Outcome{
		cannotPlan(r),
		{Request: r.ID, Deferred: []reconfigure.Deferral{jobs}},
		{
			Request: r.ID, Deferred: []reconfigure.Deferral{slurm},
			Verdicts: []reconfigure.Verdict{{Node: "n1", Action: reconfigure.Reboot, Status: reconfigure.StatusDone}},
		},
		{Request: r.ID},
	} {
		j.noError(j.Defer(j.Context(), o))
		want.Deferred, want.Verdicts = o.Deferred, o.Verdicts
		j.equal("pending", []reconfigure.Request{want}, j.pending())
		j.equal("deferred", len(o.Deferred) > 0, j.find(r.ID).IsDeferred())
	}
	j.noError(j.Finish(j.Context(), done(r)))
	j.wantError(reconfigure.ErrFinished, j.Defer(j.Context(), cannotPlan(r)))
	j.noError(j.Defer(j.Context()))
}

func (j journalRule) deferAllOrNone() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	j.noError(j.Finish(j.Context(), done(c)))
	j.wantError(reconfigure.ErrFinished, j.Defer(j.Context(), cannotPlan(a), cannotPlan(c), cannotPlan(b)))
	j.equal("pending", []reconfigure.Request{a, b}, j.pending())
	j.noError(j.Defer(j.Context(), cannotPlan(a), cannotPlan(b)))
	a.Deferred, b.Deferred = cannotPlan(a).Deferred, cannotPlan(b).Deferred
	j.equal("pending", []reconfigure.Request{a, b}, j.pending())
}

func (j journalRule) cancelled() {
	fresh, deferred, begun := j.submit("n1"), j.submit("n2"), j.submit("n3")
	both, finished := j.submit("n4"), j.submit("n5")
	j.begin(begun, both)
	j.noError(j.Defer(j.Context(), cannotPlan(deferred), cannotPlan(both)))
	j.noError(j.Finish(j.Context(), done(finished)))
	for id, want := range map[reconfigure.RequestID]error{
		fresh.ID: nil, deferred.ID: nil, begun.ID: reconfigure.ErrBegun, both.ID: reconfigure.ErrBegun,
		finished.ID: reconfigure.ErrFinished,
	} {
		if got := j.find(id).Touched; got != (want == reconfigure.ErrBegun) {
			j.Errorf("request %s: touched %v", id, got)
		}
		j.wantError(want, j.Cancel(j.Context(), id))
	}
	if err := j.Cancel(j.Context(), 99); err == nil || !strings.Contains(err.Error(), "there is no request 99") {
		j.Errorf("error %v", err)
	}
	j.wantError(reconfigure.ErrFinished, j.Cancel(j.Context(), fresh.ID))
	_, err := j.Begin(j.Context(), idsOf(deferred))
	j.wantError(reconfigure.ErrFinished, err)
	o, ok, err := j.Outcome(j.Context(), fresh.ID)
	if !ok || err != nil || o.Code != reconfigure.CodeCancelled || o.Error == "" || o.Finished.IsZero() {
		j.Errorf("its outcome: %+v, %v, %v", o, ok, err)
	}
	j.equal("pending", idsOf(begun, both), idsOf(j.pending()...))
}

func (j journalRule) beginsOpenRequests() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	if first, second := j.begin(a), j.begin(a, b); second <= first {
		j.Errorf("plan %d follows plan %d", second, first)
	}
	if _, err := j.Begin(j.Context(), nil); err == nil {
		j.Error("began a plan for no request")
	}
	if _, err := j.Begin(j.Context(), []reconfigure.RequestID{c.ID, 99}); err == nil {
		j.Error("began a plan for a request that is not there")
	}
	j.noError(j.Finish(j.Context(), done(b)))
	_, err := j.Begin(j.Context(), idsOf(c, b))
	j.wantError(reconfigure.ErrFinished, err)
	if j.find(c.ID).Touched {
		j.Error("half of a plan began")
	}
}

func (j journalRule) planUndoes() {
	undone, begun, suspend := j.submit("n1"), j.submit("n2"), j.submit("n1", "n2")
	j.begin(begun)
	by := func(r reconfigure.Request) reconfigure.Outcome {
		return reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeCancelled, Error: "request 3 undoes it"}
	}
	_, err := j.Begin(j.Context(), idsOf(suspend), by(undone), by(begun))
	j.wantError(reconfigure.ErrBegun, err)
	if _, ok, err := j.Outcome(j.Context(), undone.ID); ok || err != nil || j.find(suspend.ID).Touched {
		j.Errorf("half of the plan began: %v", err)
	}
	number, err := j.Begin(j.Context(), idsOf(suspend), by(undone))
	j.noError(err)
	o, ok, err := j.Outcome(j.Context(), undone.ID)
	if !ok || err != nil || o.Code != reconfigure.CodeCancelled || o.Error != "request 3 undoes it" {
		j.Errorf("the outcome of what is undone: %+v, %v, %v", o, ok, err)
	}
	events := j.eventsOf(suspend)
	if len(events) != 1 || events[0].Plan != number || events[0].Level != reconfigure.Note ||
		!strings.Contains(events[0].Message, "request 1 was cancelled") {
		j.Errorf("the plan notes %+v", events)
	}
	_, err = j.Begin(j.Context(), idsOf(suspend), by(undone))
	j.wantError(reconfigure.ErrFinished, err)
}

func (j journalRule) paused() {
	isNot := func(when string) {
		j.Helper()
		if p, ok, err := j.Paused(j.Context()); ok || err != nil {
			j.Errorf("%s: %+v, %v, %v", when, p, ok, err)
		}
	}
	isNot("at first")
	j.noError(j.Continue(j.Context()))
	for _, reason := range []string{"new cables", "newer cables"} {
		before := time.Now()
		j.noError(j.Pause(j.Context(), reason, "anna from 10.0.0.5"))
		p, ok, err := j.Paused(j.Context())
		if !ok || err != nil || p.Since.Before(before) || p.Since.After(time.Now()) {
			j.Errorf("%+v, %v, %v", p, ok, err)
		}
		j.equal("pause", reconfigure.Pause{Since: p.Since, Reason: reason, By: "anna from 10.0.0.5"}, p)
	}
	r := j.submit("n1") // a pause does not reject requests
	_, err := j.Begin(j.Context(), idsOf(r))
	j.wantError(reconfigure.ErrPaused, err)
	j.noError(j.Continue(j.Context()))
	isNot("afterwards")
	j.begin(r)
}

func (j journalRule) nothingBeginsInAPause() {
	r := j.submit("n1")
	var (
		wait    sync.WaitGroup
		numbers []int64
		started = make(chan struct{})
	)
	ctx, stop := context.WithCancel(j.Context())
	defer stop()
	wait.Go(func() {
		for {
			number, err := j.Begin(ctx, idsOf(r))
			if err != nil {
				j.wantError(reconfigure.ErrPaused, err)
				return
			}
			if numbers = append(numbers, number); len(numbers) == 1 {
				close(started)
			}
		}
	})
	<-started
	another := j.setup.Open(j)
	j.noError(another.Pause(j.Context(), "new cables", "anna"))
	_, err := another.Begin(j.Context(), idsOf(r))
	if j.wantError(reconfigure.ErrPaused, err); err == nil {
		stop()
	}
	wait.Wait()
	j.noError(another.Continue(j.Context()))
	if next, last := j.begin(r), slices.Max(numbers); next <= last {
		j.Errorf("plan %d began before plan %d and returned after it", next, last)
	}
}

func (j journalRule) oneHolder() {
	another := j.by(j.setup.Open(j))
	held, end := j.WhileHeld(j.Context())
	end()
	j.wantError(reconfigure.ErrLeaseLost, context.Cause(held))
	for range 2 { // a released lease can be acquired again
		if who, since := j.HolderSince(j.Context()); who != "" || !since.IsZero() || another.Holder(j.Context()) != "" {
			j.Errorf("nobody has the lease, and yet: %q since %s", who, since)
		}
		release := j.acquire()
		held, end := j.WhileHeld(j.Context())
		for _, other := range []journalRule{j, another} {
			if _, ok, err := other.Acquire(j.Context()); ok || err != nil {
				j.Errorf("a second holder: %v, %v", ok, err)
			}
			who, since := other.HolderSince(j.Context())
			if !strings.HasPrefix(who, "process ") || who != other.Holder(j.Context()) {
				j.Errorf("the holder is %q", who)
			}
			if time.Since(since) < 0 || time.Since(since) > time.Minute {
				j.Errorf("it has the lease since %s", since)
			}
		}
		j.wantError(nil, context.Cause(held))
		end()
		j.noError(release())
	}
	j.noError(another.acquire()())
}

func (j journalRule) loserIsFenced() {
	r, outside := j.submit("n1"), j.by(j.setup.Open(j))
	number := j.begin(r)
	release := j.acquire()
	trying := func(h reconfigure.Health) reconfigure.Health { return h.Trying("n1", time.Now()) }
	writes := map[string]func() error{
		"Begin":        func() error { _, err := j.Begin(j.Context(), idsOf(r)); return err },
		"Record":       func() error { return j.Record(j.Context(), noted(number, "n1", "")) },
		"Keep":         func() error { return j.Keep(j.Context(), collected(number, "n1", "")) },
		"Defer":        func() error { return j.Defer(j.Context(), cannotPlan(r)) },
		"UpdateHealth": func() error { return j.UpdateHealth(j.Context(), "group", trying) },
		"KeepNodes":    func() error { return j.KeepNodes(j.Context(), reconfigure.DefaultShard, nil) },
		"KeepSums":     func() error { return j.KeepSums(j.Context(), map[string]string{"n9": "s"}) },
		"KeepMarked":   func() error { return j.KeepMarked(j.Context()) },
		"KeepHostKeys": func() error { return j.KeepHostKeys(j.Context(), map[string][]string{"192.0.2.1": nil}) },
	}
	for name, write := range writes {
		if err := write(); err != nil {
			j.Errorf("%s by the holder: %v", name, err)
		}
	}
	before := len(j.eventsOf(r))

	j.setup.Lose(j)
	writes["Finish"] = func() error { return j.Finish(j.Context(), done(r)) }
	for name, write := range writes {
		if err := write(); !errors.Is(err, reconfigure.ErrLeaseLost) {
			j.Errorf("%s after the lease was lost: %v", name, err)
		}
	}
	if len(j.eventsOf(r)) != before || len(j.pending()) != 1 {
		j.Error("something of it was written")
	}
	j.submit("n2") // needs no lease
	j.noError(j.Pause(j.Context(), "", ""))
	j.noError(j.Continue(j.Context()))

	_ = release() // ErrLeaseLost if the lock is lost too
	next := outside.acquire()
	j.noError(outside.Finish(j.Context(), done(r)))
	j.noError(next())
	last := j.acquire()
	j.noError(j.Record(j.Context(), noted(number, "n1", "again")))
	j.noError(last())
}

func (j journalRule) eventsConcern() {
	few, whole := j.submit("n1", "n2"), j.submitted(reconfigure.Request{Mode: reconfigure.Deploy})
	other, idle := j.submit("n1"), j.submit("n9")
	number := j.begin(few, whole)
	j.noError(j.Record(j.Context(), noted(j.begin(other), "n1", "x")))
	j.noError(j.Record(j.Context(), noted(number, "n2", "a"), noted(number, "", "b"), noted(number, "n3", "c")))
	j.noError(j.Record(j.Context(), noted(number, "n1", "d")))
	messages := func(r reconfigure.Request, after int64) (text string, last int64) {
		events, err := j.Events(j.Context(), r.ID, after)
		j.noError(err)
		for _, e := range events {
			text, last = text+e.Message, e.ID
		}
		return text, last
	}
	for r, want := range map[*reconfigure.Request]string{&few: "abd", &whole: "abcd", &other: "x", &idle: ""} {
		text, last := messages(*r, 0)
		j.equal("events of request "+r.ID.String(), want, text)
		text, _ = messages(*r, last)
		j.equal("events after the last one", "", text)
	}
	_, last := messages(few, 0)
	text, _ := messages(few, last-2)
	j.equal("events after the event before the last two", "d", text)

	grouped, err := j.EventsOf(j.Context(), few.ID, whole.ID, other.ID, idle.ID, 99)
	j.noError(err)
	j.equal("grouped", map[reconfigure.RequestID][]reconfigure.Event{
		few.ID: j.eventsOf(few), whole.ID: j.eventsOf(whole), other.ID: j.eventsOf(other),
	}, grouped)
	none, err := j.EventsOf(j.Context())
	j.noError(err)
	j.equal("of no requests", map[reconfigure.RequestID][]reconfigure.Event{}, none)
}

func (j journalRule) eventsOfAllPlans() {
	r := j.submit("n1")
	var want []reconfigure.Event
	for i := range 3 {
		e := noted(j.begin(r), "n1", fmt.Sprint(i))
		e.Time = time.Unix(int64(10-i), 5).UTC() // the clock may jump back; the order stays
		j.noError(j.Record(j.Context(), e))
		e.ID = int64(i) + 1
		want = append(want, e)
	}
	j.equal("events", want, j.eventsOf(r))
	grouped, err := j.EventsOf(j.Context(), r.ID)
	j.noError(err)
	j.equal("grouped", want, grouped[r.ID])
}

func (j journalRule) eventsAfter() {
	a, b := j.submit("n1"), j.submit("n2")
	first, both := j.begin(a), j.begin(b, a)
	var all []reconfigure.Event
	for i, plan := range []int64{first, both, first} {
		e := noted(plan, "n1", fmt.Sprint(i))
		e.Time = time.Unix(int64(10+i), 0).UTC()
		j.noError(j.Record(j.Context(), e))
		e.ID = int64(i) + 1
		all = append(all, e)
	}
	for what, c := range map[string]struct {
		after int64
		since time.Time
		limit int
		want  []reconfigure.Event
	}{
		"all":           {0, time.Unix(0, 0), 9, all},
		"at most two":   {0, time.Unix(0, 0), 2, all[:2]},
		"none":          {0, time.Unix(0, 0), 0, nil},
		"after another": {1, time.Unix(0, 0), 9, all[1:]},
		"since a time":  {0, time.Unix(12, 0), 9, all[2:]},
		"after both":    {3, time.Unix(12, 0), 9, nil},
	} {
		got, err := j.EventsAfter(j.Context(), c.after, c.since, c.limit)
		j.noError(err)
		j.equal(what, c.want, got)
	}
	plans, err := j.RequestsOf(j.Context(), first, both, 99)
	j.noError(err)
	j.equal("of plans", map[int64][]reconfigure.RequestID{first: {a.ID}, both: {a.ID, b.ID}}, plans)
	none, err := j.RequestsOf(j.Context())
	j.noError(err)
	j.equal("of no plans", map[int64][]reconfigure.RequestID{}, none)
}

func (j journalRule) requestsSince() {
	old, open, last := j.submit("n1"), j.submit("n2"), j.submit("n3")
	ended := func(r reconfigure.Request, at int64) reconfigure.Outcome {
		o := done(r)
		o.Finished = time.Unix(at, 0).UTC()
		return o
	}
	want := map[reconfigure.RequestID]reconfigure.Outcome{old.ID: ended(old, 10), last.ID: ended(last, 20)}
	j.begin(old)
	j.noError(j.Finish(j.Context(), want[old.ID], want[last.ID]))
	for since, want := range map[int64][]reconfigure.Request{10: {old, open, last}, 11: {open, last}, 21: {open}} {
		got, err := j.RequestsSince(j.Context(), time.Unix(since, 0))
		j.noError(err)
		j.equal(fmt.Sprint("since ", since), want, got, asked)
	}
	got, err := j.OutcomesOf(j.Context(), old.ID, open.ID, last.ID, 99)
	j.noError(err)
	j.equal("outcomes", want, got)
}

func (j journalRule) recordAllOrNone() {
	r := j.submit("n1")
	number := j.begin(r)
	bad := noted(number, "n1", "no such level")
	bad.Level = "shrug"
	for _, e := range []reconfigure.Event{bad, noted(99, "n1", "of no plan")} {
		if err := j.Record(j.Context(), noted(number, "n1", "good"), e); err == nil {
			j.Errorf("recorded %+v", e)
		}
	}
	j.noError(j.Record(j.Context()))
	j.equal("events", []reconfigure.Event(nil), j.eventsOf(r))
}

func (j journalRule) lastMoves() {
	last := func() map[string]string {
		moves, err := j.LastMoves(j.Context())
		j.noError(err)
		texts := map[string]string{}
		for node, e := range moves {
			texts[node] = e.Message
		}
		return texts
	}
	j.equal("of an empty journal", map[string]string{}, last())
	first, second := j.begin(j.submit("n1")), j.begin(j.submit("n2"))
	j.noError(j.Record(j.Context(),
		moved(first, "n1", "old"), moved(second, "n10", "new10"), moved(first, "n2", "old"), moved(first, "", "plan")))
	j.noError(j.Record(j.Context(), moved(second, "n2", "new2"), moved(first, "n1", "new1")))
	// A note does not hide the phase of a node.
	j.noError(j.Record(j.Context(),
		noted(first, "n1", "left alone"), noted(first, "n1", "still"), noted(second, "n3", "not reached")))
	j.equal("last moves", map[string]string{"n1": "new1", "n2": "new2", "n10": "new10"}, last())
}

func (j journalRule) evidenceComesBack() {
	first, second := j.submit("n1", "n2"), j.submit("n1", "n3")
	whole := j.submitted(reconfigure.Request{Mode: reconfigure.Deploy})
	p1, p2, p3 := j.begin(first), j.begin(first, second), j.begin(whole)
	task := collected(p2, "n3", strings.Repeat("what the task has printed\n", 2500))
	task.Kind, task.Phase = reconfigure.WitnessTask, reconfigure.PhaseConfigure
	all := []reconfigure.Evidence{
		collected(p1, "n1", "console\n"), collected(p2, "n1", "console again\n"), task, collected(p3, "n1", "and again\n"),
	}
	j.noError(j.Keep(j.Context(), all[:2]...))
	j.noError(j.Keep(j.Context(), all[2:]...))
	j.noError(j.Keep(j.Context()))
	got, err := j.Evidence(j.Context(), nodeset.Of("n1", "n2"))
	j.noError(err)
	j.equal("of nodes", []reconfigure.Evidence{all[0], all[1], all[3]}, got)
	for r, want := range map[*reconfigure.Request][]reconfigure.Evidence{
		&first: {all[0], all[1]}, &second: {all[1], all[2]}, &whole: {all[3]},
	} {
		got, err := j.EvidenceOf(j.Context(), *r)
		j.noError(err)
		j.equal("of request "+r.ID.String(), want, got)
	}
	if err := j.Keep(j.Context(), collected(p1, "n2", "good"), collected(99, "n2", "of no plan")); err == nil {
		j.Error("evidence of no plan was kept")
	}
	now := collected(p1, "n2", "now")
	now.Time = time.Time{}
	j.noError(j.Keep(j.Context(), now))
	got, err = j.Evidence(j.Context(), nodeset.Of("n2"))
	if err != nil || len(got) != 1 || got[0].Text != "now" || time.Since(got[0].Time) > time.Minute {
		j.Errorf("all or none, and the time of now: %+v, %v", got, err)
	}
}

func (j journalRule) pruned() {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	finish := func(r reconfigure.Request, hour int) {
		j.Helper()
		o := done(r)
		o.Finished = at(hour)
		j.noError(j.Finish(j.Context(), o))
	}
	record := func(number int64, node, message string) {
		j.Helper()
		j.noError(j.Record(j.Context(), moved(number, node, message)))
		j.noError(j.Keep(j.Context(), collected(number, node, message)))
	}
	requests := func() []reconfigure.Request {
		all, err := j.Requests(j.Context(), 10)
		j.noError(err)
		return all
	}
	old, withOpen, open := j.submit("n1"), j.submit("n2"), j.submit("n3", "n2")
	withYoung, young, untouched := j.submit("n4"), j.submit("n5", "n4"), j.submit("n6")
	record(j.begin(old), "n1", "of the old")
	record(j.begin(withOpen, open), "n2", "of the open")
	record(j.begin(open), "n3", "again")
	record(j.begin(withYoung, young), "n4", "of the young")
	finish(old, 1)
	finish(withOpen, 1)
	finish(withYoung, 1)
	finish(young, 3)

	j.noError(j.Prune(j.Context(), at(1))) // an outcome at the cut-off stays
	j.equal("requests that are young enough", 6, len(requests()))
	for range 2 {
		j.noError(j.Prune(j.Context(), at(2)))
		j.equal("requests", []reconfigure.Request{untouched, young, open}, requests(), asked)
		moves, err := j.LastMoves(j.Context())
		j.noError(err)
		texts := map[string]string{}
		for node, e := range moves {
			texts[node] = e.Message
		}
		j.equal("events", map[string]string{"n2": "of the open", "n3": "again", "n4": "of the young"}, texts)
		kept, err := j.Evidence(j.Context(), nodeset.Of("n1", "n2", "n3", "n4"))
		j.noError(err)
		var evidence []string
		for _, e := range kept {
			evidence = append(evidence, e.Text)
		}
		j.equal("evidence", []string{"of the open", "again", "of the young"}, evidence)
	}
	j.noError(j.Prune(j.Context(), time.Now().Add(time.Hour)))
	j.equal("requests", []reconfigure.Request{untouched, open}, requests(), asked)
	j.equal("events of the open request", 2, len(j.eventsOf(open)))
	if next := j.submit("n7"); next.ID != untouched.ID+1 {
		j.Errorf("request %s follows %s", next.ID, untouched.ID)
	}
}

func (j journalRule) absentIsNotFound() {
	if _, ok, err := j.Request(j.Context(), 7); ok || err != nil {
		j.Errorf("request: %v, %v", ok, err)
	}
	if _, ok, err := j.Outcome(j.Context(), 7); ok || err != nil {
		j.Errorf("outcome: %v, %v", ok, err)
	}
	if _, err := j.Events(j.Context(), 7, 0); err == nil || !strings.Contains(err.Error(), "no request 7") {
		j.Errorf("events: %v", err)
	}
	absent := reconfigure.Outcome{Request: 7, Code: reconfigure.CodeDone}
	for _, err := range []error{j.Finish(j.Context(), absent), j.Defer(j.Context(), absent)} {
		if err == nil || errors.Is(err, reconfigure.ErrFinished) {
			j.Errorf("error %v", err)
		}
	}
	if err := j.Record(j.Context(), noted(7, "n1", "")); err == nil {
		j.Error("recorded an event of a plan that never began")
	}
}

func (j journalRule) reopened() {
	a, b, c := j.submit("n1"), j.submit("n2"), j.submit("n3")
	number := j.begin(a, b)
	j.noError(j.Record(j.Context(), noted(number, "n1", "one"), noted(number, "n2", "two")))
	j.noError(j.Defer(j.Context(), cannotPlan(c)))
	j.noError(j.Finish(j.Context(), done(b)))

	next := j.by(j.setup.Open(j))
	j.equal("pending", j.pending(), next.pending())
	j.equal("pending", idsOf(a, c), idsOf(next.pending()...))
	j.equal("events", j.eventsOf(a), next.eventsOf(a))
	if got := next.find(a.ID); !got.Touched || next.find(c.ID).Touched || !next.find(c.ID).IsDeferred() {
		j.Errorf("found %+v", next.pending())
	}
	release := next.acquire()
	if again := next.begin(a); again <= number {
		j.Errorf("plan %d follows plan %d", again, number)
	}
	j.noError(next.Finish(j.Context(), done(a)))
	j.noError(release())
	j.wantError(reconfigure.ErrFinished, j.Finish(j.Context(), done(a)))
}

func (j journalRule) changed() {
	holder, r := j.by(j.setup.Open(j)), j.submit("n1")
	release := holder.acquire()
	number := holder.begin(r)
	for name, write := range map[string]func(){
		"Submit":   func() { r = j.submit("n2") },
		"Cancel":   func() { j.noError(j.Cancel(j.Context(), j.submit("n3").ID)) },
		"Pause":    func() { j.noError(j.Pause(j.Context(), "", "")) },
		"Continue": func() { j.noError(j.Continue(j.Context())) },
	} {
		before := holder.token()
		write()
		if holder.token() == before {
			j.Errorf("%s is no change", name)
		}
	}
	before := holder.token()
	j.pending()
	j.noError(holder.Record(j.Context(), noted(number, "n1", "")))
	j.noError(holder.Defer(j.Context(), cannotPlan(r)))
	j.noError(holder.Finish(j.Context(), done(r)))
	j.equal("what the holder writes is no change", before, holder.token())
	holder.submit("n4") // as reconcile does
	if holder.token() == before {
		j.Error("a request of the holder's own is no change")
	}
	j.noError(release())
}

func (j journalRule) manyGoroutines() {
	number := j.begin(j.submit("n0"))
	var group sync.WaitGroup
	for g := range 8 {
		node := fmt.Sprint("n", g)
		group.Go(func() {
			for range 10 {
				r, err := j.Submit(j.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(node)})
				err = errors.Join(err, j.Record(j.Context(), noted(number, node, "")))
				_, e := j.Pending(j.Context())
				if err := errors.Join(err, e, j.Finish(j.Context(), done(r))); err != nil {
					j.Error(err)
				}
			}
		})
	}
	group.Wait()
	all, err := j.Requests(j.Context(), 1000)
	j.noError(err)
	j.equal("requests", 81, len(all))
	j.equal("pending", 1, len(j.pending()))
}

func (j journalRule) contextEnded() {
	r := j.submit("n1")
	ctx, cancel := context.WithCancel(j.Context())
	cancel()
	_, submitted := j.Submit(ctx, r)
	_, pending := j.Pending(ctx)
	_, began := j.Begin(ctx, idsOf(r))
	for _, err := range []error{submitted, pending, began, j.Finish(ctx, done(r)), j.Cancel(ctx, r.ID)} {
		j.wantError(context.Canceled, err)
	}
	j.equal("pending", []reconfigure.Request{r}, j.pending())
}

func specOf(group string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, ImageID: "image", FlavorID: "flavor", NetworkID: "network"}
}

func (j journalRule) nodesAreKept() {
	want := func(want map[string]reconfigure.Spec, there bool) {
		j.Helper()
		got, ok, err := j.Nodes(j.Context())
		j.noError(err)
		j.equal("nodes", want, got)
		j.equal("there are nodes", there, ok)
		clear(got) // the caller owns the map
	}
	want(nil, false)
	one := map[string]reconfigure.Spec{"n1": specOf("a")}
	two := map[string]reconfigure.Spec{"n1": specOf("b"), "n2": specOf("a")}
	j.noError(j.AdoptNodes(j.Context(), one))
	want(one, true)
	j.noError(j.KeepNodes(j.Context(), reconfigure.DefaultShard, two))
	want(two, true)
	j.noError(j.AdoptNodes(j.Context(), one)) // the stored map is newer
	want(two, true)
	three := specOf("a")
	three.Shard = "other-0"
	j.noError(j.KeepNodes(j.Context(), "other-0", map[string]reconfigure.Spec{"n3": three}))
	want(map[string]reconfigure.Spec{"n1": specOf("b"), "n2": specOf("a"), "n3": three}, true)
	if j.KeepNodes(j.Context(), "other-0", map[string]reconfigure.Spec{"n1": three}) == nil {
		j.Error("a node is in two shards")
	}
	j.noError(j.KeepNodes(j.Context(), "other-0", nil))
	want(two, true)
	j.noError(j.KeepNodes(j.Context(), reconfigure.DefaultShard, nil)) // an empty map differs from an unknown one
	j.noError(j.AdoptNodes(j.Context(), one))
	want(nil, true)
}

func (j journalRule) identityStays() {
	want := func(want reconfigure.Identity) {
		j.Helper()
		got, err := j.Identity(j.Context())
		j.noError(err)
		j.equal("identity", want, got)
	}
	want(reconfigure.Identity{})
	j.noError(j.KeepMarked(j.Context()))
	want(reconfigure.Identity{})
	j.noError(j.AdoptIdentity(j.Context(), "one"))
	j.noError(j.AdoptIdentity(j.Context(), "two"))
	want(reconfigure.Identity{ID: "one"})
	j.noError(j.KeepMarked(j.Context()))
	j.noError(j.AdoptIdentity(j.Context(), "two"))
	want(reconfigure.Identity{ID: "one", Marked: true})
}

func (j journalRule) newestDeclaration() {
	at := func(host, sum string, hour int) reconfigure.Declaration {
		return reconfigure.Declaration{Host: host, Sum: sum, Changed: time.Date(2026, 1, 1, hour, 0, 0, 1, time.UTC)}
	}
	for _, step := range []struct{ said, newest reconfigure.Declaration }{
		{at("a", "one", 1), at("a", "one", 1)},
		{at("b", "one", 2), at("a", "one", 1)}, // a copy
		{at("b", "two", 3), at("b", "two", 3)},
		{at("a", "one", 1), at("b", "two", 3)}, // an old version
		{at("a", "three", 3), at("b", "two", 3)},
		{at("a", "one", 4), at("a", "one", 4)}, // the edit was reverted
		{at("a", "two", 3), at("a", "two", 3)}, // restored from a backup
	} {
		got, err := j.Declare(j.Context(), step.said)
		j.noError(err)
		j.equal(fmt.Sprint("after ", step.said), step.newest, got)
	}
}

func (j journalRule) hostKeysAreKept() {
	want := func(want map[string][]string) {
		j.Helper()
		got, err := j.HostKeys(j.Context())
		j.noError(err)
		j.equal("host keys", want, got)
	}
	want(nil)
	j.noError(j.KeepHostKeys(j.Context(), map[string][]string{"192.0.2.1": {"a", "b"}, "192.0.2.2": {"c"}}))
	j.noError(j.KeepHostKeys(j.Context(), map[string][]string{"192.0.2.1": {"d"}, "192.0.2.3": nil}))
	// Removed keys do not return from a file.
	j.noError(j.AdoptHostKeys(j.Context(), map[string][]string{
		"192.0.2.1": {"old"}, "192.0.2.3": {"old"}, "192.0.2.4": {"new"},
	}))
	kept := map[string][]string{"192.0.2.1": {"d"}, "192.0.2.2": {"c"}, "192.0.2.3": {}, "192.0.2.4": {"new"}}
	want(kept)
	if err := j.KeepHostKeys(j.Context(), map[string][]string{"": {"z"}, "192.0.2.5": {"y"}}); err == nil {
		j.Error("keys of no address were kept")
	}
	want(kept)
}

func (j journalRule) sumsAreKept() {
	want := func(want map[string]string) {
		j.Helper()
		for node, sum := range want {
			got, err := j.Sum(j.Context(), node)
			j.noError(err)
			j.equal("the sum of "+node, sum, got)
		}
	}
	want(map[string]string{"n1": ""})
	j.noError(j.KeepSums(j.Context(), map[string]string{"n1": "a", "n2": "b", "n3": ""}))
	want(map[string]string{"n1": "a", "n2": "b", "n3": ""})
	j.noError(j.KeepSums(j.Context(), map[string]string{"n1": "", "n2": "c"}))
	want(map[string]string{"n1": "", "n2": "c"})
	if err := j.KeepSums(j.Context(), map[string]string{"": "d", "n2": "e"}); err == nil {
		j.Error("a checksum of no node was kept")
	}
	want(map[string]string{"n2": "c"})
}
