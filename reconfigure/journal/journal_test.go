package journal

import (
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
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestSQLite(t *testing.T) {
	suite(t, func(t *testing.T) *Journal { return open(t, t.TempDir()) })
}

// suite is what every journal must pass, whatever keeps it. open gives an empty one that the test's end closes.
func suite(t *testing.T, open func(t *testing.T) *Journal) {
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
		{"what is not there is not found", absentIsNotFound},
		{"a batch carries requests that are there and not finished", batchCarriesOpenRequests},
		{"events come back to those whom they concern", eventsConcern},
		{"events of every batch that carried a request are its events", eventsOfAllBatches},
		{"events of one call are recorded all or none", recordAllOrNone},
		{"the newest event of each node", lastEvents},
		{"many goroutines write at once", manyGoroutines},
		{"one leads at a time", oneLeads},
		{"to look who leads keeps nobody from leading", lookingIsHarmless},
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.rule(t, open(t)) })
	}
}

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), dir)
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
	if d := cmp.Diff([]reconfigure.Request{a, c}, must(j.Pending(t.Context()))(t)); d != "" {
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

func lastEvents(t *testing.T, j *Journal) {
	if got := must(j.LastEvents(t.Context()))(t); len(got) != 0 {
		t.Errorf("an empty journal: %+v", got)
	}
	first, second := begin(t, j, submit(t, j, "n1")), begin(t, j, submit(t, j, "n2"))
	noError(t, j.Record(t.Context(), event(first, "n1", "old"), event(second, "n10", "new10"), event(first, "n2", "old"), event(first, "", "batch")))
	noError(t, j.Record(t.Context(), event(second, "n2", "new2"), event(first, "n1", "new1")))
	got := map[string]string{}
	for node, e := range must(j.LastEvents(t.Context()))(t) {
		got[node] = e.Message
	}
	if d := cmp.Diff(map[string]string{"n1": "new1", "n2": "new2", "n10": "new10"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
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
	if who := j.Leader(); who != "" {
		t.Errorf("nobody leads, and yet: %q", who)
	}
	for range 2 { // a lead that was given up can be taken again
		release, ok, err := j.Lead(t.Context())
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if who := j.Leader(); !strings.HasPrefix(who, fmt.Sprintf("process %d on ", os.Getpid())) {
			t.Errorf("the leader is %q", who)
		}
		if _, ok, err := j.Lead(t.Context()); ok || err != nil {
			t.Errorf("a second leader: %v, %v", ok, err)
		}
		noError(t, release())
		if who := j.Leader(); who != "" {
			t.Errorf("after the release: %q", who)
		}
	}
}

func lookingIsHarmless(t *testing.T, j *Journal) {
	stop := make(chan struct{})
	var lookers sync.WaitGroup
	for range 3 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					j.Leader()
				}
			}
		})
	}
	for range 300 {
		release, ok, err := j.Lead(t.Context())
		if !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
			break
		}
		noError(t, release())
	}
	close(stop)
	lookers.Wait()
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

func TestManyOpenAnEmptyFolderAtOnce(t *testing.T) {
	for range 10 {
		dir, start := t.TempDir(), make(chan struct{})
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				<-start
				j, err := Open(t.Context(), dir)
				if err != nil {
					t.Error(err)
					return
				}
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		group.Wait()
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
