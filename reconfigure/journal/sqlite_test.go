package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pressly/goose/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// earlier creates a journal as the versions without a migration library did, with a finished and a pending request and
// their events.
func earlier(t *testing.T, path string, version int) {
	t.Helper()
	db := must(sql.Open("sqlite", dsn(path)))(t)
	defer func() { noError(t, db.Close()) }()
	statements := []string{`PRAGMA journal_mode = WAL`}
	for v := range version {
		statements = append(statements, string(must(os.ReadFile(fmt.Sprintf("testdata/version%d.sql", v+1)))(t)))
	}
	statements = append(statements, fmt.Sprintf(`PRAGMA user_version = %d`, version), `
		INSERT INTO requests (mode, nodes, reason, caller, jobs, submitted) VALUES
			('resume', 'n[1-2]', 'why', 'anna', '[{"job_id":7,"nodes":"n1"}]', 1000),
			('update', 'n3', '', '', 'null', 2000);
		INSERT INTO batches (begun) VALUES (1500);
		INSERT INTO carried VALUES (1, 1), (2, 1);
		INSERT INTO events (time, batch, node, phase, level, message) VALUES
			(1600, 1, 'n1', 'boot', 'failed', 'no SSH');
		UPDATE requests SET finished = 1700, code = 'partial', error = 'some',
			verdicts = '[{"node":"n1","status":"failed"}]' WHERE id = 1;`)
	if version > 1 {
		statements = append(statements, `UPDATE requests SET options = '{"reimage":true}',
			settled = '[{"node":"n3","status":"done"}]' WHERE id = 2`)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%v: %s", err, s)
		}
	}
}

func TestAJournalOfAnEarlierVersionIsMigratedWithoutLoss(t *testing.T) {
	for version := 1; version <= 2; version++ {
		dir := t.TempDir()
		earlier(t, filepath.Join(dir, "journal.db"), version)
		manyOpen(t, dir) // all at once
		j := open(t, dir)

		done := reconfigure.Request{
			ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of("n1", "n2"), Reason: "why", Caller: "anna",
			Jobs: []reconfigure.Job{{ID: 7, Nodes: nodeset.Of("n1")}}, Submitted: time.Unix(0, 1000).UTC(),
		}
		open := reconfigure.Request{
			ID: 2, Mode: reconfigure.Update, Nodes: nodeset.Of("n3"), Submitted: time.Unix(0, 2000).UTC(),
		}
		if version > 1 {
			open.Reimage, open.Verdicts = true, []reconfigure.Verdict{{Node: "n3", Status: reconfigure.StatusDone}}
		}
		if d := cmp.Diff([]reconfigure.Request{open, done}, must(j.Requests(t.Context(), 9))(t),
			cmpopts.IgnoreFields(reconfigure.Request{}, "Touched")); d != "" {
			t.Errorf("version %d (-want +got):\n%s", version, d)
		}
		if err := j.Cancel(t.Context(), 2); !errors.Is(err, ErrBegun) {
			t.Errorf("version %d: cancel a request that has begun: %v", version, err)
		}
		outcome := reconfigure.Outcome{
			Request: 1, Code: reconfigure.CodePartial, Error: "some", Finished: time.Unix(0, 1700).UTC(),
			Verdicts: []reconfigure.Verdict{{Node: "n1", Status: reconfigure.StatusFailed}},
		}
		got, _, err := j.Outcome(t.Context(), 1)
		if d := cmp.Diff(outcome, got); d != "" || err != nil {
			t.Errorf("version %d: %v (-want +got):\n%s", version, err, d)
		}
		event := reconfigure.Event{
			ID: 1, Time: time.Unix(0, 1600).UTC(), Plan: 1, Node: "n1", Phase: reconfigure.PhaseBoot,
			Level: reconfigure.Failed, Message: "no SSH",
		}
		if d := cmp.Diff([]reconfigure.Event{event}, must(j.Events(t.Context(), 1, 0))(t)); d != "" {
			t.Errorf("version %d (-want +got):\n%s", version, d)
		}
		if next := submit(t, j, "n4"); next.ID != 3 {
			t.Errorf("version %d: request %s follows the second", version, next.ID)
		}
		release, ok, err := j.Acquire(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		noError(t, release())
	}
}

// A process may be killed between any two transactions.
func TestAKilledMigrationIsContinued(t *testing.T) {
	for version := 0; version <= 2; version++ {
		for _, killedAt := range versionsFrom(t, int64(version)) {
			dir := t.TempDir()
			path := filepath.Join(dir, "journal.db")
			if version > 0 {
				earlier(t, path, version)
			}
			db := must(sql.Open("sqlite", dsn(path)))(t)
			noError(t, adopt(t.Context(), db))
			noError(t, adopt(t.Context(), db))
			p := must(migrator(goose.DialectSQLite3, "sqlite", db))(t)
			if killedAt > 0 {
				_, err := p.UpTo(t.Context(), killedAt)
				noError(t, err)
			}
			var said int64
			noError(t, db.QueryRow(`PRAGMA user_version`).Scan(&said))
			if said != killedAt {
				t.Errorf("after migration %d the user_version is %d; each migration must set it", killedAt, said)
			}
			noError(t, db.Close())
			submit(t, open(t, dir), "n1")
		}
	}
}

// versionsFrom returns that version and those to which a journal of that version is migrated.
func versionsFrom(t *testing.T, first int64) []int64 {
	t.Helper()
	db := must(sql.Open("sqlite", dsn(filepath.Join(t.TempDir(), "none.db"))))(t)
	defer db.Close()
	versions := []int64{first}
	for _, s := range must(migrator(goose.DialectSQLite3, "sqlite", db))(t).ListSources() {
		if s.Version > first {
			versions = append(versions, s.Version)
		}
	}
	return versions
}

func TestAFailedMigrationLeavesTheVersionBeforeIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	earlier(t, path, 1)
	db := must(sql.Open("sqlite", dsn(path)))(t)
	must(db.ExecContext(t.Context(), `CREATE TABLE pause (x)`))(t) // in the way of the third
	_, err := Open(t.Context(), dir)
	wants(t, err, path, "open", "migrate its schema to version 3", "pause")
	var version, leads int
	noError(t, db.QueryRow(`PRAGMA user_version`).Scan(&version))
	noError(t, db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'lead'`).Scan(&leads))
	if version != 2 || leads != 0 {
		t.Errorf("left at version %d, with %d tables of the third", version, leads)
	}
	must(db.ExecContext(t.Context(), `DROP TABLE pause`))(t)
	noError(t, db.Close())
	submit(t, open(t, dir), "n1")
}

// A process that was stopped during a write delays the others but blocks none.
func TestTheQueueOfWritersIsNoLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.store = sqliteStore{dir: dir, queue: time.Millisecond}
	stopped := flock.New(filepath.Join(dir, queueFile))
	noError(t, stopped.Lock())
	defer stopped.Close()
	_, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of("n1")})
	noError(t, err)
}
