package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Journal is a journal in memory that one process has open. It fulfills the contract of the real one
// (journaltest.Test), and takes no time. Its methods may be called from several goroutines. It is deterministic under
// testing/synctest.
type Journal struct {
	*record
	process int
	lease   *lease
	dead    bool
}

// record is what all processes share. The mutex guards everything, also the fields of the Journals.
type record struct {
	mutex       sync.Mutex
	processes   int
	requests    []*entry // oldest first
	plans       []plan   // oldest first
	events      []reconfigure.Event
	evidence    []reconfigure.Evidence
	newest      struct{ request, plan, event int64 }
	health      map[string]reconfigure.Health
	pause       *reconfigure.Pause
	nodes       map[string]reconfigure.Spec // nil: none was stored yet
	identity    reconfigure.Identity
	hostKeys    map[string][]string
	sums        map[string]string // by node
	declaration *reconfigure.Declaration
	holder      *lease
	epoch       int64
	changes     int64
	failure     error
	campaigns   []reconfigure.Campaign // oldest first
	lives       Lives
	jobRuns     []jobRun
	jobPosition int64
}

// entry is a request, with its outcome if it has one.
type entry struct {
	reconfigure.Request
	outcome *reconfigure.Outcome
}

type plan struct {
	number   int64
	requests []reconfigure.RequestID
}

// lease is an acquired lease.
type lease struct {
	process int
	epoch   int64
	since   time.Time
	alive   context.Context
	lose    context.CancelCauseFunc
}

// New returns an empty journal, opened by a first process.
func New() *Journal {
	shared := &record{health: map[string]reconfigure.Health{}, hostKeys: map[string][]string{}, sums: map[string]string{}}
	return (&Journal{record: shared}).Open()
}

// Open opens the same journal as another process does.
func (j *Journal) Open() *Journal {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.processes++
	return &Journal{record: j.record, process: j.processes}
}

// Crash ends the process: its lease is free, and each later call on it fails.
func (j *Journal) Crash() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.dead = true
	if j.lease != nil && j.holder == j.lease {
		j.holder = nil
	}
}

// LoseLease takes the lease from its holder, as a failing connection does.
func (j *Journal) LoseLease() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.holder != nil {
		j.holder.lose(reconfigure.ErrLeaseLost)
		j.holder = nil
	}
}

// Fail makes all calls of all processes fail with err, until it is called with nil.
func (j *Journal) Fail(err error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.failure = err
}

// Close does nothing.
func (j *Journal) Close() error { return nil }

// access calls do under the mutex, unless the call must fail.
func (j *Journal) access(ctx context.Context, do func() error) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case j.dead:
		return errors.New("the process is dead")
	case j.failure != nil:
		return j.failure
	}
	return do()
}

// write is access for writes that need no lease.
func (j *Journal) write(ctx context.Context, do func() error) error {
	return j.access(ctx, func() error {
		err := do()
		if err == nil {
			j.changes++
		}
		return err
	})
}

// writeHeld is access for writes that need the lease. A Journal that never acquired it may also write: it is then the
// only one.
func (j *Journal) writeHeld(ctx context.Context, do func() error) error {
	return j.access(ctx, func() error {
		if j.lease == nil {
			j.changes++
		} else if j.lease != j.holder {
			return reconfigure.ErrLeaseLost
		}
		return do()
	})
}

// Acquire acquires the lease; ok is false while another process has it.
func (j *Journal) Acquire(ctx context.Context) (release func() error, ok bool, err error) {
	err = j.write(ctx, func() error {
		if j.holder != nil {
			return nil
		}
		alive, lose := context.WithCancelCause(context.WithoutCancel(ctx))
		j.epoch++
		l := &lease{j.process, j.epoch, time.Now(), alive, lose}
		j.holder, j.lease = l, l
		release, ok = func() error { return j.release(l) }, true
		return nil
	})
	return release, ok, err
}

func (j *Journal) release(l *lease) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.lease == l {
		j.lease = nil
	}
	if j.holder != l {
		return reconfigure.ErrLeaseLost
	}
	j.holder = nil
	l.lose(nil)
	return nil
}

// WhileHeld returns ctx, cancelled with the cause ErrLeaseLost when the lease is lost, and at once without a lease.
func (j *Journal) WhileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	l := j.lease
	if l == nil {
		cancel(reconfigure.ErrLeaseLost)
		return ctx, func() {}
	}
	stop := context.AfterFunc(l.alive, func() { cancel(reconfigure.ErrLeaseLost) })
	return ctx, func() { stop(); cancel(nil) }
}

// Holder returns the holder of the lease, for people.
func (j *Journal) Holder(ctx context.Context) string {
	holder, _ := j.HolderSince(ctx)
	return holder
}

// HolderSince returns the Holder, and since when it holds the lease, in seconds.
func (j *Journal) HolderSince(ctx context.Context) (holder string, since time.Time) {
	_ = j.access(ctx, func() error {
		if l := j.holder; l != nil {
			since = l.since.UTC().Truncate(time.Second)
			holder = fmt.Sprintf("process %d on memory since %s", l.process, since.Format(time.RFC3339))
		}
		return nil
	})
	return holder, since
}

// Changed returns a new number after a write by another process than the holder of the lease.
func (j *Journal) Changed(ctx context.Context) (token int64, err error) {
	err = j.access(ctx, func() error { token = j.changes; return nil })
	return token, err
}

func stamped(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return t.Round(0).UTC()
}

// Submit stores a request and gives it its ID.
func (j *Journal) Submit(ctx context.Context, r reconfigure.Request) (submitted reconfigure.Request, err error) {
	err = j.write(ctx, func() (err error) {
		submitted, err = j.insert(r)
		return err
	})
	return submitted, err
}

func (r *record) insert(q reconfigure.Request) (reconfigure.Request, error) {
	if q.Mode == "" {
		return reconfigure.Request{}, errors.New("a request without a mode")
	}
	r.newest.request++
	q.ID, q.Submitted = reconfigure.RequestID(r.newest.request), stamped(q.Submitted)
	q.Jobs = slices.Clone(q.Jobs)
	r.requests = append(r.requests, &entry{Request: q})
	return q, nil
}

// view returns a request in the form for callers.
func (r *record) view(e *entry) reconfigure.Request {
	v := e.Request
	v.Jobs, v.Deferred, v.Verdicts = slices.Clone(v.Jobs), slices.Clone(v.Deferred), slices.Clone(v.Verdicts)
	return v
}

// find returns the entry of a request; nil if there is none.
func (r *record) find(id reconfigure.RequestID) *entry {
	i := slices.IndexFunc(r.requests, func(e *entry) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return r.requests[i]
}

// open returns the entry of a request without an outcome.
func (r *record) open(id reconfigure.RequestID) (*entry, error) {
	switch e := r.find(id); {
	case e == nil:
		return nil, fmt.Errorf("there is no request %s", id)
	case e.outcome != nil:
		return nil, fmt.Errorf("request %s: %w", id, reconfigure.ErrFinished)
	default:
		return e, nil
	}
}

// untouched returns the entry of a request without an outcome for which nothing was done.
func (r *record) untouched(id reconfigure.RequestID) (*entry, error) {
	e, err := r.open(id)
	if err == nil && e.Touched {
		err = fmt.Errorf("request %s: %w", id, reconfigure.ErrBegun)
	}
	return e, err
}

// Pending returns the requests without an outcome, oldest first.
func (j *Journal) Pending(ctx context.Context) (pending []reconfigure.Request, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.requests {
			if e.outcome == nil {
				pending = append(pending, j.view(e))
			}
		}
		return nil
	})
	return pending, err
}

// Requests returns at most limit requests, newest first.
func (j *Journal) Requests(ctx context.Context, limit int) (newest []reconfigure.Request, err error) {
	err = j.access(ctx, func() error {
		for _, e := range slices.Backward(j.requests) {
			if len(newest) < limit {
				newest = append(newest, j.view(e))
			}
		}
		return nil
	})
	return newest, err
}

// Request finds a request.
func (j *Journal) Request(ctx context.Context, id reconfigure.RequestID) (r reconfigure.Request, ok bool, err error) {
	err = j.access(ctx, func() error {
		if e := j.find(id); e != nil {
			r, ok = j.view(e), true
		}
		return nil
	})
	return r, ok, err
}

// Outcome returns the outcome of a request; false if it has none.
func (j *Journal) Outcome(ctx context.Context, id reconfigure.RequestID) (o reconfigure.Outcome, ok bool, err error) {
	err = j.access(ctx, func() error {
		if e := j.find(id); e != nil && e.outcome != nil {
			o, ok = *e.outcome, true
			o.Verdicts = slices.Clone(o.Verdicts)
		}
		return nil
	})
	return o, ok, err
}

// Begin opens a plan for requests, which are touched from then on, and cancels others.
func (j *Journal) Begin(
	ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome,
) (number int64, err error) {
	err = j.writeHeld(ctx, func() error {
		if err := j.mayBegin(ids, undone); err != nil {
			return err
		}
		j.newest.plan++
		number = j.newest.plan
		j.plans = append(j.plans, plan{number, slices.Clone(ids)})
		for _, id := range ids {
			j.find(id).Touched = true
		}
		for _, o := range undone {
			j.cancel(j.find(o.Request), o.Error)
			message := fmt.Sprintf("request %s was cancelled: %s", o.Request, o.Error)
			j.append(reconfigure.Event{
				Plan: number, Phase: reconfigure.PhasePlan, Level: reconfigure.Note, Message: message,
			})
		}
		return nil
	})
	return number, err
}

// mayBegin returns an error if the plan may not begin.
func (r *record) mayBegin(ids []reconfigure.RequestID, undone []reconfigure.Outcome) error {
	if len(ids) == 0 {
		return errors.New("a plan for no request")
	}
	if r.pause != nil {
		return reconfigure.ErrPaused
	}
	touched, finished := map[reconfigure.RequestID]bool{}, map[reconfigure.RequestID]bool{}
	for _, id := range ids {
		if _, err := r.open(id); err != nil {
			return err
		}
		if touched[id] {
			return fmt.Errorf("a plan that is for request %s twice", id)
		}
		touched[id] = true
	}
	for _, o := range undone {
		if _, err := r.untouched(o.Request); err != nil {
			return err
		}
		if touched[o.Request] {
			return fmt.Errorf("request %s: %w", o.Request, reconfigure.ErrBegun)
		}
		if finished[o.Request] {
			return fmt.Errorf("request %s: %w", o.Request, reconfigure.ErrFinished)
		}
		finished[o.Request] = true
	}
	return nil
}

// Cancel cancels a request for which nothing was done.
func (j *Journal) Cancel(ctx context.Context, id reconfigure.RequestID) error {
	return j.write(ctx, func() error {
		e, err := j.untouched(id)
		if err == nil {
			j.cancel(e, "it had not begun yet")
		}
		return err
	})
}

func (*record) cancel(e *entry, why string) {
	e.outcome = &reconfigure.Outcome{
		Request: e.ID, Code: reconfigure.CodeCancelled, Error: why, Finished: stamped(time.Time{}),
		Verdicts: []reconfigure.Verdict{},
	}
}

// Finish stores the outcomes of requests, all or none.
func (j *Journal) Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	return j.each(ctx, outcomes, true, func(e *entry, o reconfigure.Outcome) {
		o.Finished, o.Verdicts, o.Deferred = stamped(o.Finished), slices.Clone(o.Verdicts), nil
		e.outcome = &o
	})
}

// Defer stores the deferrals of requests, and their verdicts so far, all or none.
func (j *Journal) Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	return j.each(ctx, outcomes, false, func(e *entry, o reconfigure.Outcome) {
		e.Deferred, e.Verdicts = slices.Clone(o.Deferred), append([]reconfigure.Verdict{}, o.Verdicts...)
	})
}

// each changes the open entry of each outcome, all or none. With once, a request may have only one.
func (j *Journal) each(
	ctx context.Context, outcomes []reconfigure.Outcome, once bool, do func(*entry, reconfigure.Outcome),
) error {
	if len(outcomes) == 0 {
		return nil
	}
	return j.writeHeld(ctx, func() error {
		seen := map[reconfigure.RequestID]bool{}
		for _, o := range outcomes {
			if _, err := j.open(o.Request); err != nil {
				return err
			}
			if once && seen[o.Request] {
				return fmt.Errorf("request %s: %w", o.Request, reconfigure.ErrFinished)
			}
			seen[o.Request] = true
		}
		for _, o := range outcomes {
			do(j.find(o.Request), o)
		}
		return nil
	})
}

// began reports whether the plan exists.
func (r *record) began(number int64) bool {
	return slices.ContainsFunc(r.plans, func(p plan) bool { return p.number == number })
}

func (r *record) append(e reconfigure.Event) {
	r.newest.event++
	e.ID, e.Time = r.newest.event, stamped(e.Time)
	r.events = append(r.events, e)
}

var levels = []reconfigure.Level{reconfigure.Begun, reconfigure.Done, reconfigure.Failed, reconfigure.Note}

// Record stores events, in their order, all or none.
func (j *Journal) Record(ctx context.Context, events ...reconfigure.Event) error {
	return j.writeHeld(ctx, func() error {
		for _, e := range events {
			if err := whole(e.Life); err != nil {
				return err
			}
			if e.Life != nil && e.Phase == "" {
				continue
			}
			if !j.began(e.Plan) || e.Phase == "" || !slices.Contains(levels, e.Level) {
				return fmt.Errorf("an event of plan %d in phase %q of level %q", e.Plan, e.Phase, e.Level)
			}
		}
		for _, e := range events {
			if e.Life != nil {
				j.lives.Record(*e.Life)
			}
			if e.Phase != "" {
				e.Life = nil
				j.append(e)
			}
		}
		return nil
	})
}

// plansOf returns the plans for a request.
func (r *record) plansOf(id reconfigure.RequestID) map[int64]bool {
	numbers := map[int64]bool{}
	for _, p := range r.plans {
		if slices.Contains(p.requests, id) {
			numbers[p.number] = true
		}
	}
	return numbers
}

func (r *record) eventsOf(e *entry, after int64) (own []reconfigure.Event) {
	plans := r.plansOf(e.ID)
	for _, event := range r.events {
		concerned := event.Node == "" || e.Nodes.Empty() || e.Nodes.Contains(event.Node)
		if event.ID > after && plans[event.Plan] && concerned {
			own = append(own, event)
		}
	}
	return own
}

// Events returns the events of a request after the event with that ID.
func (j *Journal) Events(
	ctx context.Context, id reconfigure.RequestID, after int64,
) (events []reconfigure.Event, err error) {
	err = j.access(ctx, func() error {
		e := j.find(id)
		if e == nil {
			return fmt.Errorf("there is no request %s", id)
		}
		events = j.eventsOf(e, after)
		return nil
	})
	return events, err
}

// EventsOf returns the events of several requests, by request.
func (j *Journal) EventsOf(
	ctx context.Context, ids ...reconfigure.RequestID,
) (map[reconfigure.RequestID][]reconfigure.Event, error) {
	byRequest := map[reconfigure.RequestID][]reconfigure.Event{}
	return byRequest, j.access(ctx, func() error {
		for _, id := range ids {
			if e := j.find(id); e != nil && len(j.eventsOf(e, 0)) > 0 {
				byRequest[id] = j.eventsOf(e, 0)
			}
		}
		return nil
	})
}

// RequestsSince returns the requests that had no outcome at that time, oldest first.
func (j *Journal) RequestsSince(ctx context.Context, since time.Time) (all []reconfigure.Request, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.requests {
			if e.outcome == nil || !e.outcome.Finished.Before(since) {
				all = append(all, j.view(e))
			}
		}
		return nil
	})
	return all, err
}

// OutcomesOf returns the outcomes of requests, by request.
func (j *Journal) OutcomesOf(
	ctx context.Context, ids ...reconfigure.RequestID,
) (map[reconfigure.RequestID]reconfigure.Outcome, error) {
	outcomes := map[reconfigure.RequestID]reconfigure.Outcome{}
	for _, id := range ids {
		o, ok, err := j.Outcome(ctx, id)
		if err != nil {
			return nil, err
		}
		if ok {
			outcomes[id] = o
		}
	}
	return outcomes, ctx.Err()
}

// EventsAfter returns the events after the event with that ID that are not older than since, at most limit.
func (j *Journal) EventsAfter(
	ctx context.Context, after int64, since time.Time, limit int,
) (events []reconfigure.Event, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.events {
			if e.ID > after && !e.Time.Before(since) && len(events) < limit {
				events = append(events, e)
			}
		}
		return nil
	})
	return events, err
}

// RequestsOf returns the requests of plans, by plan.
func (j *Journal) RequestsOf(ctx context.Context, plans ...int64) (map[int64][]reconfigure.RequestID, error) {
	requests := map[int64][]reconfigure.RequestID{}
	return requests, j.access(ctx, func() error {
		for _, p := range j.plans {
			if slices.Contains(plans, p.number) {
				requests[p.number] = slices.Sorted(slices.Values(p.requests))
			}
		}
		return nil
	})
}

// LastMoves returns the newest event of each node that is not a note, by node.
func (j *Journal) LastMoves(ctx context.Context) (map[string]reconfigure.Event, error) {
	last := map[string]reconfigure.Event{}
	return last, j.access(ctx, func() error {
		for _, e := range j.events {
			if e.Node != "" && e.Level != reconfigure.Note {
				last[e.Node] = e
			}
		}
		return nil
	})
}

// Keep stores evidence, all or none.
func (j *Journal) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	return j.writeHeld(ctx, func() error {
		for _, e := range evidence {
			if !j.began(e.Plan) || e.Node == "" || e.Phase == "" || e.Kind == "" {
				return fmt.Errorf("evidence of plan %d, node %q, phase %q, kind %q", e.Plan, e.Node, e.Phase, e.Kind)
			}
		}
		for _, e := range evidence {
			e.Time = stamped(e.Time)
			j.evidence = append(j.evidence, e)
		}
		return nil
	})
}

// Evidence returns the evidence of nodes, oldest first.
func (j *Journal) Evidence(ctx context.Context, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error) {
	return j.evidenceWhere(ctx, func(e reconfigure.Evidence) bool { return nodes.Contains(e.Node) })
}

// EvidenceOf returns the evidence of a request's nodes from the plans for it, oldest first.
func (j *Journal) EvidenceOf(ctx context.Context, r reconfigure.Request) ([]reconfigure.Evidence, error) {
	var plans map[int64]bool
	if err := j.access(ctx, func() error { plans = j.plansOf(r.ID); return nil }); err != nil {
		return nil, err
	}
	return j.evidenceWhere(ctx, func(e reconfigure.Evidence) bool {
		return plans[e.Plan] && (r.Nodes.Empty() || r.Nodes.Contains(e.Node))
	})
}

func (j *Journal) evidenceWhere(
	ctx context.Context, keep func(reconfigure.Evidence) bool,
) (kept []reconfigure.Evidence, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.evidence {
			if keep(e) {
				kept = append(kept, e)
			}
		}
		return nil
	})
	return kept, err
}

// Health returns the health of the node groups with failures, by name.
func (j *Journal) Health(ctx context.Context) (health map[string]reconfigure.Health, err error) {
	err = j.access(ctx, func() error { health = maps.Clone(j.health); return nil })
	return health, err
}

// UpdateHealth replaces a group's health by the result of update.
func (j *Journal) UpdateHealth(
	ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health,
) error {
	return j.writeHeld(ctx, func() error {
		h := j.health[group]
		h.Group = group
		h = update(h)
		h.Group = group
		if j.health[group] = h; h.Well() {
			delete(j.health, group)
		}
		return nil
	})
}

// Sum returns the checksum of a node's last configuration; empty if none is stored.
func (j *Journal) Sum(ctx context.Context, node string) (sum string, err error) {
	err = j.access(ctx, func() error { sum = j.sums[node]; return nil })
	return sum, err
}

// KeepSums replaces the checksums of these nodes; an empty one is deleted.
func (j *Journal) KeepSums(ctx context.Context, sums map[string]string) error {
	return j.writeHeld(ctx, func() error { return KeepSums(j.sums, sums) })
}

// KeepSums replaces entries of a map.
func KeepSums(kept, sums map[string]string) error {
	if _, nameless := sums[""]; nameless {
		return errors.New("a checksum of no node")
	}
	maps.Copy(kept, sums)
	return nil
}

// Pause begins a pause: no plan begins until Continue.
func (j *Journal) Pause(ctx context.Context, reason, by string) error {
	return j.write(ctx, func() error {
		j.pause = &reconfigure.Pause{Since: stamped(time.Time{}), By: by, Reason: reason}
		return nil
	})
}

// Continue ends a pause.
func (j *Journal) Continue(ctx context.Context) error {
	return j.write(ctx, func() error { j.pause = nil; return nil })
}

// Paused returns the pause; false if there is none.
func (j *Journal) Paused(ctx context.Context) (p reconfigure.Pause, ok bool, err error) {
	err = j.access(ctx, func() error {
		if j.pause != nil {
			p, ok = *j.pause, true
		}
		return nil
	})
	return p, ok, err
}

// Prune deletes the requests with an outcome before that time, and the data that belongs to no other request.
func (j *Journal) Prune(ctx context.Context, before time.Time) error {
	return j.access(ctx, func() error {
		old := func(e *entry) bool { return e.outcome != nil && e.outcome.Finished.Before(before) }
		gone := func(id reconfigure.RequestID) bool { e := j.find(id); return e == nil || old(e) }
		j.plans = slices.DeleteFunc(j.plans, func(p plan) bool {
			return !slices.ContainsFunc(p.requests, func(id reconfigure.RequestID) bool { return !gone(id) })
		})
		j.events = slices.DeleteFunc(j.events, func(e reconfigure.Event) bool { return !j.began(e.Plan) })
		j.evidence = slices.DeleteFunc(j.evidence, func(e reconfigure.Evidence) bool { return !j.began(e.Plan) })
		j.requests = slices.DeleteFunc(j.requests, old)
		j.pruneUsage(before)
		return nil
	})
}

// Name returns the journal's name.
func (j *Journal) Name() string { return "memory" }

// Nodes returns the map of nodes; false if none was stored yet.
func (j *Journal) Nodes(ctx context.Context) (nodes map[string]reconfigure.Spec, ok bool, err error) {
	err = j.access(ctx, func() error { nodes, ok = maps.Clone(j.nodes), j.nodes != nil; return nil })
	return nodes, ok, err
}

// KeepNodes replaces the part of a shard in the map of nodes.
func (j *Journal) KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error {
	return j.writeHeld(ctx, func() error {
		all := maps.Clone(j.nodes)
		if all == nil {
			all = map[string]reconfigure.Spec{}
		}
		maps.DeleteFunc(all, func(_ string, s reconfigure.Spec) bool { return s.Shard == shard })
		for node, spec := range nodes {
			if other, there := all[node]; there || spec.Shard != shard {
				return fmt.Errorf("%s is in shard %q, not in %q", node, cmp.Or(other.Shard, spec.Shard), shard)
			}
			all[node] = spec
		}
		j.setNodes(all)
		return nil
	})
}

// AdoptNodes stores a map if none was stored yet.
func (j *Journal) AdoptNodes(ctx context.Context, nodes map[string]reconfigure.Spec) error {
	return j.write(ctx, func() error {
		if j.nodes == nil {
			j.setNodes(nodes)
		}
		return nil
	})
}

func (r *record) setNodes(nodes map[string]reconfigure.Spec) {
	r.nodes = map[string]reconfigure.Spec{}
	maps.Copy(r.nodes, nodes)
}

// Identity returns the adopted id.
func (j *Journal) Identity(ctx context.Context) (identity reconfigure.Identity, err error) {
	err = j.access(ctx, func() error { identity = j.identity; return nil })
	return identity, err
}

// AdoptIdentity stores an id if there was none yet.
func (j *Journal) AdoptIdentity(ctx context.Context, id string) error {
	return j.write(ctx, func() error {
		j.identity.ID = cmp.Or(j.identity.ID, id)
		return nil
	})
}

// KeepMarked records that all instances have the id.
func (j *Journal) KeepMarked(ctx context.Context) error {
	return j.writeHeld(ctx, func() error {
		j.identity.Marked = j.identity.ID != ""
		return nil
	})
}

// HostKeys returns the keys of each address.
func (j *Journal) HostKeys(ctx context.Context) (keys map[string][]string, err error) {
	err = j.access(ctx, func() error {
		keys = maps.Clone(j.hostKeys)
		for address := range keys {
			keys[address] = append([]string{}, keys[address]...)
		}
		return nil
	})
	return keys, err
}

// KeepHostKeys replaces the keys of these addresses.
func (j *Journal) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	return j.writeHeld(ctx, func() error { return j.setHostKeys(keys, true) })
}

// AdoptHostKeys stores the keys of those addresses that have none yet.
func (j *Journal) AdoptHostKeys(ctx context.Context, keys map[string][]string) error {
	return j.write(ctx, func() error { return j.setHostKeys(keys, false) })
}

func (r *record) setHostKeys(keys map[string][]string, replace bool) error {
	if _, nameless := keys[""]; nameless {
		return errors.New("host keys of no address")
	}
	for address, of := range keys {
		if _, known := r.hostKeys[address]; replace || !known {
			r.hostKeys[address] = append([]string{}, of...)
		}
	}
	return nil
}

// Declare stores the declaration that a control host uses, and returns the newest one.
func (j *Journal) Declare(ctx context.Context, d reconfigure.Declaration) (newest reconfigure.Declaration, err error) {
	err = j.write(ctx, func() error {
		if known := j.declaration; known == nil || d.Sum != known.Sum && !d.Outdated(*known) {
			d.Changed = d.Changed.Round(0).UTC()
			j.declaration = &d
		}
		newest = *j.declaration
		return nil
	})
	return newest, err
}

// Messages returns the events, one line each, for tests that fail.
func (j *Journal) Messages() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	var text strings.Builder
	for _, e := range j.events {
		at := e.Time.Format(time.RFC3339)
		fmt.Fprintf(&text, "%s plan %d %s %s %s: %s\n", at, e.Plan, e.Node, e.Phase, e.Level, e.Message)
	}
	return text.String()
}

// UpdateHealth updates the health of a group, and removes it when the group is well.
func UpdateHealth(
	known map[string]reconfigure.Health, group string, update func(reconfigure.Health) reconfigure.Health,
) {
	h := known[group]
	h.Group = group
	h = update(h)
	if h.Group = group; h.Well() {
		delete(known, group)
		return
	}
	known[group] = h
}
