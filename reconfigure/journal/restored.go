package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// ErrDatabase is the error of Copy for a journal in PostgreSQL, which has its own backups.
var ErrDatabase = errors.New("the journal is in a database: back it up by pg_dump")

// Copy writes a consistent copy of the journal to a new file, which only its owner can read. Others may write
// meanwhile; what they commit after the start of Copy is not in it. The copy is complete or missing. Copy may be
// retried.
func (j *Journal) Copy(ctx context.Context, path string) error {
	if _, ok := j.store.(sqliteStore); !ok {
		return j.explain("copy", ErrDatabase)
	}
	if _, err := os.Lstat(path); err == nil {
		return j.explain("copy", fmt.Errorf("%s: %w", path, fs.ErrExist))
	}
	return j.explain("copy", copyTo(ctx, j.db, path))
}

// NewestSchema returns the newest version of the schema that this program knows.
func NewestSchema() (int64, error) { return newest(goose.DialectSQLite3, "sqlite") }

// Held reports whether a process holds the lease of the journal in a folder, also if the journal itself is gone. It
// changes nothing.
func Held(dir string) (bool, error) {
	return sqliteStore{dir: dir}.locked(context.Background(), nil)
}

// Exclude keeps workers from the journal in SQLite in a folder until release. Neither the journal nor the folder need
// exist; the folder is made. ok is false while a worker has the lease. Exclude may be retried.
func Exclude(ctx context.Context, dir string) (release func() error, ok bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, err
	}
	lock, err := sqliteStore{dir: dir}.lock(ctx)
	if err != nil || lock == nil {
		return nil, false, err
	}
	return lock.release, true, nil
}

// skip is added to the numbers of requests, plans and campaigns by Restored. What the cluster has done since the backup
// must have other numbers: an image in the cloud, for example, has the number of its request.
const skip = 100_000

// Restored prepares the copy of a journal in SQLite, made at a time, for use. What happened since then is unknown, so
// nothing that the copy asks for may be carried out: requests without an outcome are cancelled, an active campaign is
// paused, and a pause begins, which only an administrator ends. The checksums of configured nodes are removed: the next
// start of a stopped node runs the playbooks. It returns the number of cancelled requests. Nobody else may have the
// journal open. Restored may be retried.
func (j *Journal) Restored(ctx context.Context, at time.Time) (cancelled int64, err error) {
	// A copy has another mode. It cannot be set in a transaction.
	if _, err := j.db.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return 0, j.explain("restore", err)
	}
	of := at.UTC().Format(time.RFC3339)
	err = j.write(ctx, "restore", func(tx *sql.Tx) error {
		now := time.Now().UnixNano()
		const pause = `INSERT INTO pause (id, since, caller, reason) VALUES (1, $1, 'reconfigure restore', $2)
			ON CONFLICT (id) DO UPDATE SET since = excluded.since, caller = excluded.caller, reason = excluded.reason`
		reason := "the backup of " + of + " was restored; look at `reconfigure reconcile` first"
		if _, err := tx.ExecContext(ctx, pause, now, reason); err != nil {
			return err
		}
		const cancel = `UPDATE requests SET finished = $1, code = $2, error = $3, verdicts = '[]' WHERE finished IS NULL`
		why := "it had no outcome in the backup of " + of + ", and what was done for it since then is unknown"
		result, err := tx.ExecContext(ctx, cancel, now, reconfigure.CodeCancelled, why)
		if err != nil {
			return err
		}
		if cancelled, err = result.RowsAffected(); err != nil {
			return err
		}
		if err := pauseCampaign(ctx, tx, "the backup of "+of+" was restored"); err != nil {
			return err
		}
		const renumber = `UPDATE sqlite_sequence SET seq = seq + $1 WHERE name IN ('requests', 'plans', 'campaigns')`
		if _, err := tx.ExecContext(ctx, renumber, skip); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM sums`)
		return err
	})
	return cancelled, err
}

// Recoverer is the caller of the pause that Recovering begins.
const Recoverer = "reconfigure recover"

// Recovering begins the pause of a new journal whose predecessor is lost, which only an administrator ends. The numbers
// of requests, plans and campaigns begin above those of the predecessor: the cloud may have images with the numbers of
// its requests. If the pause has begun already, Recovering does nothing.
func (j *Journal) Recovering(ctx context.Context) error {
	return j.write(ctx, "begin to recover", func(tx *sql.Tx) error {
		now := time.Now()
		const pause = `INSERT INTO pause (id, since, caller, reason) VALUES (1, $1, $2, $3) ON CONFLICT (id) DO NOTHING`
		result, err := tx.ExecContext(ctx, pause, now.UnixNano(), Recoverer,
			"the cluster is recovered from the cloud; look at `reconfigure reconcile` first")
		if err != nil {
			return err
		}
		if began, err := result.RowsAffected(); err != nil || began == 0 {
			return err
		}
		_, local := j.store.(sqliteStore)
		for _, table := range []string{"requests", "plans", "campaigns"} {
			if err := numberFrom(ctx, tx, local, table, now.Unix()/60); err != nil {
				return err
			}
		}
		return nil
	})
}

// numberFrom lets the numbers of a table begin after a number, unless they are above it already. The minutes since 1970
// are above the numbers of a predecessor that made less than one request a minute all the time.
func numberFrom(ctx context.Context, tx *sql.Tx, local bool, table string, last int64) error {
	if !local {
		const next = `SELECT setval(pg_get_serial_sequence($1, 'id'),
			greatest($2, nextval(pg_get_serial_sequence($1, 'id'))))`
		_, err := tx.ExecContext(ctx, next, table, last)
		return err
	}
	const insert = `INSERT INTO sqlite_sequence (name, seq) SELECT $1, 0
		WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = $1)`
	if _, err := tx.ExecContext(ctx, insert, table); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE sqlite_sequence SET seq = max(seq, $2) WHERE name = $1`, table, last)
	return err
}

// pauseCampaign pauses the newest campaign if it is active.
func pauseCampaign(ctx context.Context, tx *sql.Tx, why string) error {
	c, err := scanCampaign(tx.QueryRowContext(ctx, newestCampaign))
	if errors.Is(err, sql.ErrNoRows) || err == nil && !c.Active() {
		return nil
	}
	if err != nil {
		return err
	}
	c.State, c.Why = reconfigure.CampaignPaused, why
	known, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE campaigns SET known = $1 WHERE id = $2`, string(known), c.ID)
	return err
}
