package journal

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pressly/goose/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// version7 fills a journal of version 7, the last one with batches: a finished request, one that has begun, one that is
// deferred in parts, one that cannot be planned, and a new one.
var version7 = []string{
	`INSERT INTO requests (mode, nodes, reason, caller, jobs, submitted, options, newest_batch, touched) VALUES
		('resume', 'n[1-2]', '', '', 'null', 1000, '{}', 0, 1), 
		('resume', 'n3', '', '', '[{"job_id":7,"nodes":"n3"},{"job_id":7,"nodes":"n3"}]', 2000, '{}', 0, 1),
		('update', 'n[4-7]', '', '', 'null', 3000, '{}', 0, 1), ('resume', 'n8', '', '', 'null', 4000, '{}', 0, NULL),
		('suspend', 'n9', '', '', 'null', 5000, '{}', 2, NULL)`,
	`INSERT INTO batches (begun) VALUES (1500), (2500)`,
	`INSERT INTO carried (request, batch) VALUES (1, 1), (2, 1), (3, 1), (4, 2), (3, 2)`,
	`INSERT INTO events (time, batch, node, phase, level, message) VALUES
		(1600, 1, 'n1', 'boot', 'failed', 'no SSH'), (1700, 1, 'n3', 'apply', 'begun', ''),
		(2600, 2, '', 'plan', 'note', 'x')`,
	`INSERT INTO evidence (time, batch, node, phase, kind, text) VALUES (1600, 1, 'n1', 'boot', 'console', 'panic')`,
	`UPDATE requests SET settled = '{"verdicts":[{"node":"n4","status":"done"}],"waits":[
		{"node":"n5","request":3,"reason":"its jobs have to end first"},
		{"node":"n6","request":3,"reason":"no answer","veiled":true},
		{"node":"n7","request":3,"reason":"no SSH","tries":1,"class":"ssh"}]}' WHERE id = 3`,
	`UPDATE requests SET settled = '{"verdicts":[],"waits":[{"request":4,"reason":"no cloud"}]}' WHERE id = 4`,
	`UPDATE requests SET finished = 1800, code = 'failed', error = '', verdicts = '[]' WHERE id = 1`,
	`UPDATE lead SET epoch = 5, leader = 'process 1 on a since 2026-01-01T00:00:00Z'`,
}

// fromVersion7 opens a journal of version 7, and checks what this version reads from it.
func fromVersion7(t *testing.T, place string, dialect goose.Dialect, folder string, db *sql.DB) {
	_, err := must(migrator(dialect, folder, db))(t).UpTo(t.Context(), 7)
	noError(t, err)
	for _, statement := range version7 {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v: %s", err, statement)
		}
	}
	noError(t, db.Close())
	manyOpen(t, place) // all at once
	j := open(t, place)

	at := func(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
	want := []reconfigure.Request{
		{
			ID: 2, Mode: reconfigure.Resume, Nodes: nodeset.Of("n3"), Submitted: at(2000), Touched: true,
			Jobs: []reconfigure.Job{{ID: 7, Nodes: nodeset.Of("n3")}, {ID: 7, Nodes: nodeset.Of("n3")}},
		},
		{
			ID: 3, Mode: reconfigure.Update, Nodes: nodeset.Of("n4", "n5", "n6", "n7"), Submitted: at(3000),
			Touched:  true,
			Verdicts: []reconfigure.Verdict{{Node: "n4", Status: reconfigure.StatusDone}},
			Deferred: []reconfigure.Deferral{
				{Node: "n5", Request: 3, Kind: reconfigure.WaitsForJobs, Reason: "its jobs have to end first"},
				{Node: "n6", Request: 3, Kind: reconfigure.SlurmUnreachable, Reason: "no answer"},
			},
		},
		{
			ID: 4, Mode: reconfigure.Resume, Nodes: nodeset.Of("n8"), Submitted: at(4000),
			Deferred: []reconfigure.Deferral{{Request: 4, Kind: reconfigure.CannotPlan, Reason: "no cloud"}},
		},
		{ID: 5, Mode: reconfigure.Suspend, Nodes: nodeset.Of("n9"), Submitted: at(5000)},
	}
	if d := cmp.Diff(want, must(j.Pending(t.Context()))(t), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if named := must(j.RequestsFor(t.Context(), 7))(t); len(named) != 1 || named[0].ID != 2 {
		t.Errorf("job 7 is in the requests %+v", named)
	}
	events := must(j.EventsOf(t.Context(), 1, 2, 3, 4, 5))(t)
	texts := map[reconfigure.RequestID][]string{}
	for id, of := range events {
		texts[id] = messages(of)
	}
	same(t, "events", map[reconfigure.RequestID][]string{1: {"no SSH"}, 2: {""}, 3: {"x"}, 4: {"x"}}, texts)
	if kept := must(j.Evidence(t.Context(), nodeset.Of("n1")))(t); len(kept) != 1 || kept[0].Plan != 1 {
		t.Errorf("evidence %+v", kept)
	}
	for id, want := range map[reconfigure.RequestID]error{1: ErrFinished, 2: ErrBegun, 4: nil, 5: nil} {
		if err := j.Cancel(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("cancel request %s: %v", id, err)
		}
	}
	release, ok, err := j.Acquire(t.Context())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if epoch := j.lease.Load().epoch; epoch != 6 {
		t.Errorf("epoch %d follows 5", epoch)
	}
	if plan := must(j.Begin(t.Context(), []reconfigure.RequestID{2}))(t); plan != 3 {
		t.Errorf("plan %d follows 2", plan)
	}
	noError(t, j.Prune(t.Context(), time.Now()))
	noError(t, release())
}

func TestVersion7OfSQLite(t *testing.T) {
	dir := t.TempDir()
	former := filepath.Join(dir, formerFile)
	noError(t, os.WriteFile(former, nil, 0o600))
	db := must(sql.Open("sqlite", dsn(filepath.Join(dir, "journal.db"))))(t)
	fromVersion7(t, dir, goose.DialectSQLite3, "sqlite", db)
	if _, err := os.Stat(former); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file that is no longer used is left: %v", err)
	}
}

func version7OfPostgreSQL(t *testing.T, s server) {
	url := s.database(t)
	fromVersion7(t, url, goose.DialectPostgres, "postgres", must(sql.Open("pgx", url))(t))
}
