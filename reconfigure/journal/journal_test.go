package journal

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/journaltest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// places returns at each call an empty place for a journal: a folder, or the URL of a database.
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

// suite are the tests for both databases.
func suite(t *testing.T, place places) {
	journaltest.Test(t, func(t testing.TB) journaltest.Setup {
		at := place(t)
		return journaltest.Setup{
			Open: func(t testing.TB) journaltest.Journal { return open(t, at) },
			// A successor begins its epoch in this way.
			Lose: func(t testing.TB) { must(open(t, at).nextEpoch(t.Context()))(t) },
		}
	})
	for name, rule := range processRules() {
		t.Run(name, func(t *testing.T) { rule(t, place(t)) })
	}
	for name, rule := range map[string]func(*testing.T, *Journal){
		"a request that could not be read is refused": unreadableIsRefused,
		"more rows than one step deletes are pruned":  prunedInSteps,
		"bytes that are no text are replaced":         keptReadable,
		"calls of a key are counted":                  keyUsesAreCounted,
		"its size grows":                              sizeGrows,
		"the schema refuses invalid rows":             schemaRefuses,
	} {
		t.Run(name, func(t *testing.T) { rule(t, open(t, place(t))) })
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

func event(plan int64, node, message string) reconfigure.Event {
	return reconfigure.Event{
		Plan: plan, Node: node, Phase: reconfigure.PhaseApply, Level: reconfigure.Note, Message: message,
	}
}

func sizeGrows(t *testing.T, j *Journal) {
	before := must(j.Size(t.Context()))(t)
	plan := begin(t, j, submit(t, j, "n1"))
	var text strings.Builder // PostgreSQL would compress a repeated text
	for text.Len() < 1<<20 {
		text.WriteString(rand.Text())
	}
	noError(t, j.Record(t.Context(), event(plan, "n1", text.String())))
	if after := must(j.Size(t.Context()))(t); before <= 0 || after < before+1<<19 {
		t.Errorf("%d bytes, then %d", before, after)
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

func TestTheFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	submit(t, open(t, dir), "n1")
	info, err := os.Stat(dir)
	noError(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %s", info.Mode())
	}
	files, err := os.ReadDir(dir)
	noError(t, err)
	for _, f := range files {
		if info := must(f.Info())(t); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", f.Name(), info.Mode())
		}
	}
}

func TestTheJournalStaysInAFolderOfAnyName(t *testing.T) {
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

func prunedInSteps(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	for range 2 {
		plan := begin(t, j, r)
		noError(t, j.Record(t.Context(), eventsOf(plan, pruneAtOnce+7)...))
		noError(t, j.Keep(t.Context(), evidence(plan, "n1", "it failed"), evidence(plan, "n1", "it failed twice")))
	}
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	noError(t, j.Prune(t.Context(), time.Now().Add(time.Hour)))
	for _, table := range []string{"requests", "plans", "plan_requests", "events", "evidence"} {
		var left int
		noError(t, j.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&left))
		if left != 0 {
			t.Errorf("%d %s are left", left, table)
		}
	}
}

func evidence(plan int64, node, text string) reconfigure.Evidence {
	return reconfigure.Evidence{
		Plan: plan, Node: node, Phase: reconfigure.PhaseBoot, Kind: reconfigure.WitnessConsole, Text: text,
	}
}

func keptReadable(t *testing.T, j *Journal) {
	const bad, good = "a\x00b\xffc ü", "a\uFFFDb\uFFFDc ü"
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy, Reason: bad, Caller: bad})
	noError(t, err)
	kept, _, err := j.Request(t.Context(), r.ID)
	if err != nil || kept.Reason != good || kept.Caller != good || r.Reason != good {
		t.Errorf("request %+v: %v", kept, err)
	}
	plan := begin(t, j, r)
	noError(t, j.Keep(t.Context(), evidence(plan, "n1", bad)))
	if kept := must(j.EvidenceOf(t.Context(), r))(t); len(kept) != 1 || kept[0].Text != good {
		t.Errorf("evidence %+v", kept)
	}
	noError(t, j.Record(t.Context(), event(plan, "n1", bad)))
	if kept := must(j.Events(t.Context(), r.ID, 0))(t); kept[0].Message != good {
		t.Errorf("event %q", kept[0].Message)
	}
	verdicts := []reconfigure.Verdict{{Node: "n1", Status: reconfigure.StatusFailed, Reason: "a\x00b"}}
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{
		Request: r.ID, Code: reconfigure.CodeFailed, Error: bad, Verdicts: verdicts,
	}))
	o, _, err := j.Outcome(t.Context(), r.ID)
	if err != nil || o.Error != good || o.Verdicts[0].Reason != "a\x00b" {
		t.Errorf("outcome %+v: %v", o, err)
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

func schemaRefuses(t *testing.T, j *Journal) {
	r := submit(t, j, "n1")
	begin(t, j, r)
	noError(t, j.Record(t.Context(), event(1, "n1", "")))
	noError(t, j.Finish(t.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	submit(t, j, "n2")
	const whole = "UPDATE requests SET finished = 1, error = '', "
	for rule, statement := range map[string]string{
		"an outcome is final": "UPDATE requests SET code = 'failed' WHERE id = 1",
		"an outcome stays": "UPDATE requests SET finished = NULL, code = NULL, " +
			"error = NULL, verdicts = NULL",
		"an outcome is whole":             "UPDATE requests SET finished = 1 WHERE id = 2",
		"an outcome has a code":           whole + "code = '', verdicts = '[]' WHERE id = 2",
		"verdicts are JSON":               whole + "code = 'done', verdicts = '[' WHERE id = 2",
		"jobs are JSON":                   "UPDATE requests SET jobs = 'x' WHERE id = 2",
		"a request has a mode":            "UPDATE requests SET mode = '' WHERE id = 2",
		"a number is a number":            "UPDATE requests SET submitted = 'yesterday' WHERE id = 2",
		"a request of a plan stays":       "DELETE FROM requests WHERE id = 1",
		"a plan with events stays":        "DELETE FROM plans WHERE id = 1",
		"a plan is for a request once":    "INSERT INTO plan_requests (request, plan) VALUES (1, 1)",
		"a plan is for what is there":     "INSERT INTO plan_requests (request, plan) VALUES (9, 1)",
		"a request is of a plan":          "INSERT INTO plan_requests (request, plan) VALUES (1, 9)",
		"an event is of a plan":           "UPDATE events SET plan = 9",
		"an event has a phase":            "UPDATE events SET phase = ''",
		"an event's level is one of four": "UPDATE events SET level = 'unknown'",
		"health is of a group":            "INSERT INTO health (node_group, known) VALUES ('', '{}')",
		"health is JSON":                  "INSERT INTO health (node_group, known) VALUES ('group', '{')",
		"an event's node is never NULL":   "UPDATE events SET node = NULL",
	} {
		if _, err := j.db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: accepted: %s", rule, statement)
		}
	}
}

// keyUsesAreCounted makes many callers of one key update its record.
func keyUsesAreCounted(t *testing.T, j *Journal) {
	ctx := t.Context()
	for range 3 {
		r := reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("n1"), Caller: "node n1 from 192.0.2.1"}
		must(j.Submit(ctx, r))(t)
	}
	for _, caller := range []string{"node n11 from 192.0.2.1", "node n1", "anna", "%"} {
		must(j.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1"), Caller: caller}))(t)
	}
	noError(t, j.Finish(ctx, reconfigure.Outcome{Request: 1, Code: reconfigure.CodeDone}))
	const updates = 20
	var group sync.WaitGroup
	for range updates {
		group.Go(func() {
			err := j.UpdateKeyUse(ctx, "node n1", func(known reconfigure.KeyUse, pending int) reconfigure.KeyUse {
				if known.Left++; pending != 2 {
					t.Errorf("%d requests are pending, want 2", pending)
				}
				return known
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	refused := reconfigure.RefusedCall{Time: time.Unix(7, 0).UTC(), Peer: "192.0.2.2", Why: "why", Command: `"x"`,
		Count: 3}
	noError(t, j.UpdateKeyUse(ctx, "slurm", func(known reconfigure.KeyUse, _ int) reconfigure.KeyUse {
		known.Key, known.Refused = "another", append(known.Refused, refused)
		return known
	}))
	want := []reconfigure.KeyUse{{Key: "node n1", Left: updates}, {Key: "slurm",
		Refused: []reconfigure.RefusedCall{refused}}}
	if d := cmp.Diff(want, must(j.KeyUses(ctx))(t)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
