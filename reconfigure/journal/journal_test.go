package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// places gives, at each call, an empty place for a journal: a folder, or the URL of a database.
type places func(t testing.TB) string

func TestSQLite(t *testing.T) {
	suite(t, func(t testing.TB) string { return t.TempDir() })
}

func TestPostgreSQL(t *testing.T) {
	s := startServer(t)
	suite(t, s.database)
	for name, rule := range postgresRules() {
		t.Run(name, func(t *testing.T) { rule(t, s) })
	}
}

// suite is what every journal must pass, whatever keeps it.
func suite(t *testing.T, place places) {
	for name, rule := range processRules() {
		t.Run(name, func(t *testing.T) { rule(t, place(t)) })
	}
	rules := []struct {
		name string
		rule func(*testing.T, *Journal)
	}{
		{"a request comes back as it was submitted", requestComesBack},
		{"a request gets a time where it has none", requestGetsTime},
		{"a request that could not be read again is refused", unreadableIsRefused},
		{"pending is what has no outcome, oldest first", pendingIsOldestFirst},
		{"requests are newest first and at most as many as asked for", requestsNewestFirst},
		{"a request has exactly one outcome", oneOutcome},
		{"a held request waits with the verdicts that there are", heldWaits},
		{"one watches at a time, whoever leads", oneWatches},
		{"a request that has not begun can be taken back", cancelled},
		{"what could not be planned can be taken back, until something was done for it", putOffCancelled},
		{"a request is passed by the batches that begin after it", passedByBatches},
		{"a batch undoes what has not begun, or does not begin", batchUndoes},
		{"a pause lasts until it is ended", paused},
		{"nothing begins when a pause has returned", nothingBeginsInAPause},
		{"what is old and settled is pruned", pruned},
		{"more than one step's worth is pruned", prunedInSteps},
		{"bytes that are no text are kept readable", keptReadable},
		{"what the code must not write is refused", schemaRefuses},
		{"who leads no more cannot write", leaderIsFenced},
		{"what is not there is not found", absentIsNotFound},
		{"a batch carries requests that are there and not finished", batchCarriesOpenRequests},
		{"events come back to those whom they concern", eventsConcern},
		{"events of every batch that carried a request are its events", eventsOfAllBatches},
		{"events of one call are recorded all or none", recordAllOrNone},
		{"the newest event of each node", lastMoves},
		{"evidence comes back to whoever looks into it", evidenceComesBack},
		{"many goroutines write at once", manyGoroutines},
		{"one leads at a time", oneLeads},
		{"the map of nodes is kept, and adopted where there is none", nodesAreKept},
		{"the shards of the map of nodes are kept side by side", shardsAreKeptSideBySide},
		{"the newest declaration is known to all hosts", newestDeclaration},
		{"host keys are kept by address, and forgotten ones are not adopted", hostKeysAreKept},
	}
	t.Run("it keeps health", func(t *testing.T) {
		enginetest.HealthKeeper(t, func(t *testing.T) engine.HealthKeeper { return open(t, place(t)) })
	})
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.rule(t, open(t, place(t))) })
	}
}

// openAt opens the journal at a place.
func openAt(ctx context.Context, place string) (*Journal, error) {
	if strings.HasPrefix(place, "postgres:") {
		return OpenURL(ctx, place)
	}
	return Open(ctx, place)
}

func open(t testing.TB, place string) *Journal {
	t.Helper()
	j, err := openAt(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func submit(t testing.TB, j *Journal, nodes ...string) reconfigure.Request {
	t.Helper()
	return must(j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes...)}))(t)
}

func begin(t testing.TB, j *Journal, requests ...reconfigure.Request) int64 {
	t.Helper()
	var ids []reconfigure.RequestID
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	return must(j.Begin(t.Context(), ids))(t)
}

func event(batch int64, node, message string) reconfigure.Event {
	return reconfigure.Event{Batch: batch, Node: node, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: message}
}

func requestComesBack(t *testing.T, j *Journal) {
	want := reconfigure.Request{
		Mode: reconfigure.Suspend, Nodes: nodeset.Of("node01", "node02", "gpu-7"), Reason: "line 1\nline 2 'quoted' «ü»", Caller: "slurm from 10.0.0.5",
		Jobs:      []reconfigure.Job{{ID: 42, Nodes: nodeset.Of("node01")}, {ID: 43}},
		Submitted: time.Date(2026, 2, 3, 4, 5, 6, 789, time.FixedZone("CET", 3600)),
	}
	got := must(j.Submit(t.Context(), want))(t)
	if got.ID != 1 {
		t.Errorf("the first request has ID %s", got.ID)
	}
	want.ID, want.Submitted = got.ID, want.Submitted.UTC()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("submitted (-want +got):\n%s", d)
	}
	back, ok, err := j.Request(t.Context(), got.ID)
	if d := cmp.Diff(want, back); d != "" || !ok || err != nil {
		t.Errorf("found %v, %v (-want +got):\n%s", ok, err, d)
	}
}

func requestGetsTime(t *testing.T, j *Journal) {
	before := time.Now()
	got := submit(t, j, "n1")
	if got.Submitted.Before(before) || got.Submitted.After(time.Now()) {
		t.Errorf("submitted at %s", got.Submitted)
	}
	back, _, err := j.Request(t.Context(), got.ID)
	noError(t, err)
	if back.Submitted.String() != got.Submitted.String() { // the zone, and no reading of the monotonic clock
		t.Errorf("Submit returned %s, and %s is kept", got.Submitted, back.Submitted)
	}
}

func unreadableIsRefused(t *testing.T, j *Journal) {
	for _, r := range []reconfigure.Request{
		{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1", "n[")},
		{Mode: reconfigure.Resume, Jobs: []reconfigure.Job{{ID: 1, Nodes: nodeset.Of("n[")}}},
		{Mode: ""},
	} {
		if got, err := j.Submit(t.Context(), r); err == nil {
			t.Errorf("submitted %+v", got)
		}
	}
	if waiting := must(j.Pending(t.Context()))(t); len(waiting) != 0 {
		t.Errorf("kept %+v", waiting)
	}
}

func pendingIsOldestFirst(t *testing.T, j *Journal) {
	a, b, c := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n3")
	begin(t, j, a, b) // a worker that died here left both
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: b.ID, Code: reconfigure.CodeDone}))
	if d := cmp.Diff([]reconfigure.Request{a, c}, must(j.Pending(t.Context()))(t), asked); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
}

func requestsNewestFirst(t *testing.T, j *Journal) {
	a, b, c := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n3")
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: c.ID, Code: reconfigure.CodeDone}))
	all := []reconfigure.Request{c, b, a}
	for limit, want := range map[int][]reconfigure.Request{-1: nil, 0: nil, 2: all[:2], 3: all, 9: all} {
		if d := cmp.Diff(want, must(j.Requests(t.Context(), limit))(t)); d != "" {
			t.Errorf("at most %d (-want +got):\n%s", limit, d)
		}
	}
}

func oneOutcome(t *testing.T, j *Journal) {
	r := submit(t, j, "n1", "n2")
	if _, ok, err := j.Outcome(t.Context(), r.ID); ok || err != nil {
		t.Fatalf("an outcome before there is one: %v, %v", ok, err)
	}
	want := reconfigure.Outcome{
		Request: r.ID, Code: reconfigure.CodePartial, Error: "some", Finished: time.Unix(1, 2).UTC(),
		Verdicts: []reconfigure.Verdict{
			{Node: "n1", Action: reconfigure.Create, Status: reconfigure.StatusDone},
			{Node: "n2", Action: reconfigure.Create, Status: reconfigure.StatusFailed, Phase: reconfigure.PhaseBoot, Reason: "no SSH"},
		},
	}
	noError(t, j.Finish(t.Context(), want))
	if err := j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}); !errors.Is(err, ErrFinished) {
		t.Errorf("a second outcome: %v", err)
	}
	got, ok, err := j.Outcome(t.Context(), r.ID)
	if d := cmp.Diff(want, got); d != "" || !ok || err != nil {
		t.Errorf("%v, %v (-want +got):\n%s", ok, err, d)
	}
}

func absentIsNotFound(t *testing.T, j *Journal) {
	if _, ok, err := j.Request(t.Context(), 7); ok || err != nil {
		t.Errorf("request: %v, %v", ok, err)
	}
	if _, ok, err := j.Outcome(t.Context(), 7); ok || err != nil {
		t.Errorf("outcome: %v, %v", ok, err)
	}
	if _, err := j.Events(t.Context(), 7, 0); err == nil || !strings.Contains(err.Error(), "no request 7") {
		t.Errorf("events: %v", err)
	}
	if err := j.Finish(t.Context(), reconfigure.Outcome{Request: 7, Code: reconfigure.CodeDone}); err == nil || errors.Is(err, ErrFinished) {
		t.Errorf("finish: %v", err)
	}
	if err := j.Record(t.Context(), event(7, "n1", "")); err == nil {
		t.Error("recorded an event of a batch that never began")
	}
}

func batchCarriesOpenRequests(t *testing.T, j *Journal) {
	a, b := submit(t, j, "n1"), submit(t, j, "n2")
	if first, second := begin(t, j, a), begin(t, j, a, b); first == second {
		t.Errorf("two batches of the number %d", first)
	}
	if _, err := j.Begin(t.Context(), nil); err == nil {
		t.Error("began a batch without requests")
	}
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{a.ID, 9}); err == nil || errors.Is(err, ErrFinished) {
		t.Errorf("began a request that is not there: %v", err)
	}
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: b.ID, Code: reconfigure.CodeDone}))
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{a.ID, b.ID}); !errors.Is(err, ErrFinished) {
		t.Errorf("began a finished request: %v", err)
	}
}

func eventsConcern(t *testing.T, j *Journal) {
	few, all := submit(t, j, "n1", "n2"), must(j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy}))(t)
	other := submit(t, j, "n1")
	batch := begin(t, j, few, all)
	noError(t, j.Record(t.Context(), event(begin(t, j, other), "n1", "of another batch")))
	noError(t, j.Record(t.Context(), event(batch, "n2", "a"), event(batch, "", "b"), event(batch, "n3", "c")))
	noError(t, j.Record(t.Context(), event(batch, "n1", "d")))

	messages := func(id reconfigure.RequestID, after int64) (text string, last int64) {
		for _, e := range must(j.Events(t.Context(), id, after))(t) {
			text, last = text+e.Message, e.ID
		}
		return text, last
	}
	text, last := messages(few.ID, 0)
	if text != "abd" {
		t.Errorf("the request for n1 and n2 hears %q", text)
	}
	if text, _ := messages(few.ID, last-2); text != "d" {
		t.Errorf("after the event before the last two it hears %q", text)
	}
	if text, _ := messages(few.ID, last); text != "" {
		t.Errorf("after the last event it hears %q", text)
	}
	if text, _ := messages(all.ID, 0); text != "abcd" {
		t.Errorf("the request for the whole cluster hears %q", text)
	}
}

func eventsOfAllBatches(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	var want []reconfigure.Event
	for i := range 3 {
		e := event(begin(t, j, r), "n1", fmt.Sprint(i))
		e.Time = time.Unix(int64(10-i), 5).UTC() // the clock may jump back; the order holds
		noError(t, j.Record(t.Context(), e))
		e.ID = int64(i) + 1
		want = append(want, e)
	}
	if d := cmp.Diff(want, must(j.Events(t.Context(), r.ID, 0))(t)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func recordAllOrNone(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	batch := begin(t, j, r)
	bad := event(batch, "n1", "no such level")
	bad.Level = "shrug"
	if err := j.Record(t.Context(), event(batch, "n1", "good"), bad); err == nil {
		t.Error("recorded a level that is none")
	}
	noError(t, j.Record(t.Context()))
	if got := must(j.Events(t.Context(), r.ID, 0))(t); len(got) != 0 {
		t.Errorf("left %+v", got)
	}
}

func lastMoves(t *testing.T, j *Journal) {
	if got := must(j.LastMoves(t.Context()))(t); len(got) != 0 {
		t.Errorf("an empty journal: %+v", got)
	}
	first, second := begin(t, j, submit(t, j, "n1")), begin(t, j, submit(t, j, "n2"))
	noError(t, j.Record(t.Context(), moved(first, "n1", "old"), moved(second, "n10", "new10"), moved(first, "n2", "old"), moved(first, "", "batch")))
	noError(t, j.Record(t.Context(), moved(second, "n2", "new2"), moved(first, "n1", "new1")))
	// Notes do not hide how far a node is.
	noError(t, j.Record(t.Context(), event(first, "n1", "left alone"), event(first, "n1", "still"), event(second, "n3", "not reached")))
	got := map[string]string{}
	for node, e := range must(j.LastMoves(t.Context()))(t) {
		got[node] = e.Message
	}
	if d := cmp.Diff(map[string]string{"n1": "new1", "n2": "new2", "n10": "new10"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// moved is an event that says how far a node is.
func moved(batch int64, node, message string) reconfigure.Event {
	e := event(batch, node, message)
	e.Level = reconfigure.Done
	return e
}

func manyGoroutines(t *testing.T, j *Journal) {
	batch := begin(t, j, submit(t, j, "n0"))
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for range 10 {
				r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(fmt.Sprint("n", g))})
				err = errors.Join(err, j.Record(t.Context(), event(batch, fmt.Sprint("n", g), "")))
				if _, e := j.Pending(t.Context()); errors.Join(err, e, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone})) != nil {
					t.Error(err, e)
				}
			}
		})
	}
	group.Wait()
	if n := len(must(j.Requests(t.Context(), 1000))(t)); n != 81 {
		t.Errorf("%d requests of 81", n)
	}
	if waiting := must(j.Pending(t.Context()))(t); len(waiting) != 1 {
		t.Errorf("%d wait", len(waiting))
	}
}

func oneLeads(t *testing.T, j *Journal) {
	if who := j.Leader(t.Context()); who != "" {
		t.Errorf("nobody leads, and yet: %q", who)
	}
	for range 2 { // a lead that was given up can be taken again
		release, ok, err := j.Lead(t.Context())
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if who := j.Leader(t.Context()); !strings.HasPrefix(who, fmt.Sprintf("process %d on ", os.Getpid())) {
			t.Errorf("the leader is %q", who)
		}
		if _, ok, err := j.Lead(t.Context()); ok || err != nil {
			t.Errorf("a second leader: %v, %v", ok, err)
		}
		if who, since := j.Reign(t.Context()); who != j.Leader(t.Context()) || time.Since(since) < 0 || time.Since(since) > time.Minute {
			t.Errorf("%q leads since %s", who, since)
		}
		noError(t, release())
		if who, since := j.Reign(t.Context()); who != "" || !since.IsZero() {
			t.Errorf("after the release: %q since %s", who, since)
		}
		if who := j.Leader(t.Context()); who != "" {
			t.Errorf("after the release: %q", who)
		}
	}
}

func TestFolderAndJournalAreMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	submit(t, open(t, dir), "n1")
	info, err := os.Stat(dir)
	noError(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %s", info.Mode())
	}
}

func TestJournalOutlivesItsProcessAndAnyFolderName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a b%41?c=d#e&"f`)
	j, err := Open(t.Context(), dir)
	noError(t, err)
	want := submit(t, j, "n1")
	noError(t, j.Close())
	if got := must(open(t, dir).Pending(t.Context()))(t); !cmp.Equal(got, []reconfigure.Request{want}) {
		t.Errorf("found again: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "journal.db")); err != nil {
		t.Error(err)
	}
}

func heldWaits(t *testing.T, j *Journal) {
	options := reconfigure.Options{Reimage: true, Image: "v2", FromSlurm: true, DrainTimeout: time.Hour}
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("n1", "n2"), Options: options})
	if err != nil {
		t.Fatal(err)
	}
	want := r
	want.Held = true
	for _, settled := range [][]reconfigure.Verdict{{}, {{Node: "n1", Action: reconfigure.Reboot, Status: reconfigure.StatusDone}}} {
		if err := j.Hold(t.Context(), reconfigure.Outcome{Request: r.ID, Verdicts: settled}); err != nil {
			t.Fatal(err)
		}
		want.Settled = settled
		got, err := j.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]reconfigure.Request{want}, got); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	}
	if err := j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}); err != nil {
		t.Fatal(err)
	}
	if err := j.Hold(t.Context(), reconfigure.Outcome{Request: r.ID}); !errors.Is(err, ErrFinished) {
		t.Errorf("a finished request is held: %v", err)
	}
}

func oneWatches(t *testing.T, j *Journal) {
	lead, ok, err := j.Lead(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer func() {
		if err := lead(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		release, ok, err := j.Watch(t.Context())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, ok, err := j.Watch(t.Context()); err != nil || ok {
			t.Errorf("two watch: %t, error %v", ok, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
}

func cancelled(t *testing.T, j *Journal) {
	fresh, begun, held, done := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n3"), submit(t, j, "n4")
	begin(t, j, begun, held)
	noError(t, j.Hold(t.Context(), reconfigure.Outcome{Request: held.ID}))
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: done.ID, Code: reconfigure.CodeDone}))
	for id, want := range map[reconfigure.RequestID]error{fresh.ID: nil, begun.ID: ErrBegun, held.ID: ErrBegun, done.ID: ErrFinished} {
		if err := j.Cancel(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("request %s: %v, not %v", id, err, want)
		}
	}
	wants(t, j.Cancel(t.Context(), 9), "there is no request 9")
	if err := j.Cancel(t.Context(), fresh.ID); !errors.Is(err, ErrFinished) {
		t.Errorf("taken back twice: %v", err)
	}
	if _, err := j.Begin(t.Context(), []reconfigure.RequestID{fresh.ID}); !errors.Is(err, ErrFinished) {
		t.Errorf("begun after it was taken back: %v", err)
	}
	if o, ok, err := j.Outcome(t.Context(), fresh.ID); !ok || err != nil || o.Code != reconfigure.CodeCancelled || o.Error == "" || o.Finished.IsZero() {
		t.Errorf("its outcome: %+v, %v, %v", o, ok, err)
	}
	if n := len(must(j.Pending(t.Context()))(t)); n != 2 {
		t.Errorf("%d wait, not the two that have begun", n)
	}
}

func paused(t *testing.T, j *Journal) {
	isNot := func(when string) {
		t.Helper()
		if p, ok, err := j.Paused(t.Context()); ok || err != nil {
			t.Errorf("%s: %+v, %v, %v", when, p, ok, err)
		}
	}
	isNot("at first")
	noError(t, j.Continue(t.Context()))
	for _, reason := range []string{"new cables", "newer cables"} {
		before := time.Now()
		noError(t, j.Pause(t.Context(), reason, "anna from 10.0.0.5"))
		p, ok, err := j.Paused(t.Context())
		if !ok || err != nil || p.Reason != reason || p.By != "anna from 10.0.0.5" || p.Since.Before(before) || p.Since.After(time.Now()) {
			t.Errorf("%+v, %v, %v", p, ok, err)
		}
	}
	submit(t, j, "n1") // is taken all the same
	noError(t, j.Continue(t.Context()))
	isNot("afterwards")
}

func pruned(t *testing.T, j *Journal) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	finish := func(r reconfigure.Request, hour int) {
		t.Helper()
		noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone, Finished: at(hour)}))
	}
	record := func(batch int64, node, message string) {
		t.Helper()
		e := moved(batch, node, message)
		e.Time = at(0)
		noError(t, j.Record(t.Context(), e))
		noError(t, j.Keep(t.Context(), evidence(batch, node, message)))
	}
	old, withOpen, opened := submit(t, j, "n1"), submit(t, j, "n2"), submit(t, j, "n3", "n2")
	withYoung, young, unbegun := submit(t, j, "n4"), submit(t, j, "n5", "n4"), submit(t, j, "n6")
	record(begin(t, j, old), "n1", "of the old")
	record(begin(t, j, withOpen, opened), "n2", "of the open")
	record(begin(t, j, opened), "n3", "again")
	record(begin(t, j, withYoung, young), "n4", "of the young")
	finish(old, 1)
	finish(withOpen, 1)
	finish(withYoung, 1)
	finish(young, 3)

	noError(t, j.Prune(t.Context(), at(1))) // is not before itself
	if n := len(must(j.Requests(t.Context(), 10))(t)); n != 6 {
		t.Fatalf("%d requests are left of 6 that are young enough", n)
	}
	for range 2 {
		noError(t, j.Prune(t.Context(), at(2)))
		if d := cmp.Diff([]reconfigure.Request{unbegun, young, opened}, must(j.Requests(t.Context(), 10))(t), asked); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
		got := map[string]string{}
		for node, e := range must(j.LastMoves(t.Context()))(t) {
			got[node] = e.Message
		}
		if d := cmp.Diff(map[string]string{"n2": "of the open", "n3": "again", "n4": "of the young"}, got); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		var texts []string
		for _, e := range must(j.Evidence(t.Context(), nodeset.Of("n1", "n2", "n3", "n4")))(t) {
			texts = append(texts, e.Text)
		}
		if d := cmp.Diff([]string{"of the open", "again", "of the young"}, texts); d != "" {
			t.Errorf("evidence (-want +got):\n%s", d)
		}
	}
	noError(t, j.Prune(t.Context(), time.Now().Add(time.Hour)))
	if d := cmp.Diff([]reconfigure.Request{unbegun, opened}, must(j.Requests(t.Context(), 10))(t), asked); d != "" {
		t.Errorf("an open request is never pruned (-want +got):\n%s", d)
	}
	if n := len(must(j.Events(t.Context(), opened.ID, 0))(t)); n != 2 {
		t.Errorf("%d events of the open request, not 2", n)
	}
	if next := submit(t, j, "n7"); next.ID != unbegun.ID+1 {
		t.Errorf("request %s follows %s", next.ID, unbegun.ID)
	}
}

func prunedInSteps(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	for range 2 {
		batch := begin(t, j, r)
		noError(t, j.Record(t.Context(), eventsOf(batch, pruneAtOnce+7)...))
		noError(t, j.Keep(t.Context(), evidence(batch, "n1", "it failed"), evidence(batch, "n1", "it failed twice")))
	}
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	noError(t, j.Prune(t.Context(), time.Now().Add(time.Hour)))
	for _, table := range []string{"requests", "batches", "carried", "events", "evidence"} {
		var left int
		noError(t, j.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&left))
		if left != 0 {
			t.Errorf("%d %s are left", left, table)
		}
	}
}

func evidence(batch int64, node, text string) reconfigure.Evidence {
	return reconfigure.Evidence{Time: time.Unix(0, 1234).UTC(), Batch: batch, Node: node, Phase: reconfigure.PhaseBoot, Kind: reconfigure.WitnessConsole, Text: text}
}

// evidenceComesBack for nodes from all batches, and for a request from its own, and of its own nodes.
func evidenceComesBack(t *testing.T, j *Journal) {
	first, second := submit(t, j, "n1", "n2"), submit(t, j, "n1", "n3")
	whole := must(j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy}))(t)
	b1, b2, b3 := begin(t, j, first), begin(t, j, first, second), begin(t, j, whole)
	task := evidence(b2, "n3", strings.Repeat("what the task has printed\n", 2500))
	task.Kind, task.Phase = reconfigure.WitnessTask, reconfigure.PhaseConfigure
	all := []reconfigure.Evidence{evidence(b1, "n1", "console\n"), evidence(b2, "n1", "console again\n"), task, evidence(b3, "n1", "and again\n")}
	noError(t, j.Keep(t.Context(), all[:2]...))
	noError(t, j.Keep(t.Context(), all[2:]...))
	noError(t, j.Keep(t.Context()))
	want := func(what string, want, got []reconfigure.Evidence) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	want("of nodes", []reconfigure.Evidence{all[0], all[1], all[3]}, must(j.Evidence(t.Context(), nodeset.Of("n1", "n2")))(t))
	want("of the first request", []reconfigure.Evidence{all[0], all[1]}, must(j.EvidenceOf(t.Context(), first))(t))
	want("of the second request", []reconfigure.Evidence{all[1], all[2]}, must(j.EvidenceOf(t.Context(), second))(t))
	want("of the whole cluster", []reconfigure.Evidence{all[3]}, must(j.EvidenceOf(t.Context(), whole))(t))

	if err := j.Keep(t.Context(), evidence(b1, "n2", "good"), evidence(99, "n2", "of no batch")); err == nil {
		t.Error("evidence of no batch was taken")
	}
	now := evidence(b1, "n2", "now")
	now.Time = time.Time{}
	noError(t, j.Keep(t.Context(), now))
	got := must(j.Evidence(t.Context(), nodeset.Of("n2")))(t)
	if len(got) != 1 || got[0].Text != "now" || time.Since(got[0].Time) > time.Minute {
		t.Errorf("all or none, and the time of now: %+v", got)
	}
}

func keptReadable(t *testing.T, j *Journal) {
	const bad, good = "a\x00b\xffc ü", "a\uFFFDb\uFFFDc ü"
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1"), Reason: bad, Caller: bad})
	noError(t, err)
	if kept, _, err := j.Request(t.Context(), r.ID); err != nil || kept.Reason != good || kept.Caller != good || r.Reason != good {
		t.Errorf("request %+v: %v", kept, err)
	}
	batch := begin(t, j, r)
	noError(t, j.Keep(t.Context(), evidence(batch, "n1", bad)))
	if kept := must(j.EvidenceOf(t.Context(), r))(t); len(kept) != 1 || kept[0].Text != good {
		t.Errorf("evidence %+v", kept)
	}
	noError(t, j.Record(t.Context(), event(batch, "n1", bad)))
	if kept := must(j.Events(t.Context(), r.ID, 0))(t); kept[0].Message != good {
		t.Errorf("event %q", kept[0].Message)
	}
	verdicts := []reconfigure.Verdict{{Node: "n1", Status: reconfigure.StatusFailed, Reason: "a\x00b"}}
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeFailed, Error: bad, Verdicts: verdicts}))
	if kept, _, err := j.Outcome(t.Context(), r.ID); err != nil || kept.Error != good || kept.Verdicts[0].Reason != "a\x00b" {
		t.Errorf("outcome %+v: %v", kept, err)
	}
	noError(t, j.Pause(t.Context(), bad, bad))
	noError(t, j.UpdateHealth(t.Context(), "group", func(h reconfigure.Health) reconfigure.Health {
		h.Full = reconfigure.Setback{Reason: bad}
		return h
	}))
	if kept := must(j.Health(t.Context()))(t); kept["group"].Full.Reason != "a\x00b\uFFFDc ü" {
		t.Errorf("health %+v", kept)
	}
}

func leaderIsFenced(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	batch := begin(t, j, r)
	release, ok, err := j.Lead(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	leading, end := j.WhileLeading(t.Context())
	defer end()
	writes := map[string]func() error{
		"Begin":  func() error { _, err := j.Begin(t.Context(), []reconfigure.RequestID{r.ID}); return err },
		"Record": func() error { return j.Record(t.Context(), event(batch, "n1", "")) },
		"Keep":   func() error { return j.Keep(t.Context(), evidence(batch, "n1", "")) },
		"Hold":   func() error { return j.Hold(t.Context(), reconfigure.Outcome{Request: r.ID}) },
		"UpdateHealth": func() error {
			return j.UpdateHealth(t.Context(), "group", func(h reconfigure.Health) reconfigure.Health { return h.Trying("n1", time.Now()) })
		},
		"KeepNodes":    func() error { return j.KeepNodes(t.Context(), "", nil) },
		"KeepHostKeys": func() error { return j.KeepHostKeys(t.Context(), map[string][]string{"192.0.2.1": nil}) },
	}
	for name, write := range writes {
		if err := write(); err != nil || leading.Err() != nil {
			t.Errorf("%s by the leader: %v, %v", name, err, leading.Err())
		}
	}
	before := len(must(j.Events(t.Context(), r.ID, 0))(t))

	// Another one, who may lead since this one was taken for dead.
	must(j.ascend(t.Context()))(t)
	writes["Finish"] = func() error {
		return j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone})
	}
	for name, write := range writes {
		if err := write(); !errors.Is(err, ErrLeadLost) {
			t.Errorf("%s by a leader of an epoch that is over: %v", name, err)
		}
	}
	if n := len(must(j.Events(t.Context(), r.ID, 0))(t)); n != before || len(must(j.Pending(t.Context()))(t)) != 1 {
		t.Errorf("something of it was written")
	}
	submit(t, j, "n2") // needs no lead

	noError(t, release())
	after, end := j.WhileLeading(t.Context())
	defer end()
	if !errors.Is(context.Cause(after), ErrLeadLost) {
		t.Errorf("after the release: %v", context.Cause(after))
	}
	release, ok, err = j.Lead(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	noError(t, writes["Finish"]())
	noError(t, release())
}

func schemaRefuses(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	begin(t, j, r)
	noError(t, j.Record(t.Context(), event(1, "n1", "")))
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	submit(t, j, "n2")
	for rule, statement := range map[string]string{
		"an outcome is final":             "UPDATE requests SET code = 'failed' WHERE id = 1",
		"an outcome is not taken back":    "UPDATE requests SET finished = NULL, code = NULL, error = NULL, verdicts = NULL WHERE id = 1",
		"an outcome is whole":             "UPDATE requests SET finished = 1 WHERE id = 2",
		"an outcome has a code":           "UPDATE requests SET finished = 1, code = '', error = '', verdicts = '[]' WHERE id = 2",
		"verdicts are JSON":               "UPDATE requests SET finished = 1, code = 'done', error = '', verdicts = '[' WHERE id = 2",
		"jobs are JSON":                   "UPDATE requests SET jobs = 'x' WHERE id = 2",
		"a request has a mode":            "UPDATE requests SET mode = '' WHERE id = 2",
		"a number is a number":            "UPDATE requests SET submitted = 'yesterday' WHERE id = 2",
		"a carried request stays":         "DELETE FROM requests WHERE id = 1",
		"a batch with events stays":       "DELETE FROM batches WHERE id = 1",
		"a batch carries a request once":  "INSERT INTO carried (request, batch) VALUES (1, 1)",
		"a batch carries what is there":   "INSERT INTO carried (request, batch) VALUES (9, 1)",
		"what carries is a batch":         "INSERT INTO carried (request, batch) VALUES (1, 9)",
		"an event is of a batch":          "UPDATE events SET batch = 9",
		"an event has a phase":            "UPDATE events SET phase = ''",
		"an event's level is one of four": "UPDATE events SET level = 'shrug'",
		"health is of a group":            "INSERT INTO health (node_group, known) VALUES ('', '{}')",
		"health is JSON":                  "INSERT INTO health (node_group, known) VALUES ('group', '{')",
		"an event's node is never NULL":   "UPDATE events SET node = NULL",
	} {
		if _, err := j.db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: taken: %s", rule, statement)
		}
	}
}
