// Package journal is the durable record of a cluster: the requests, the plans that started operations for them, the
// events of the operations, the evidence of failures, the outcomes, the pause, and the lease. Every call of the tool
// is a separate process that opens the journal. A write is on the disk when its method returns, and a killed process
// leaves a journal that the next one can read.
//
// The store is a SQLite database in the state folder, in write-ahead mode (https://sqlite.org/wal.html), which needs
// shared memory: the folder MUST be on a file system of the host, not on a network file system that several hosts
// write to. If several control hosts share a cluster, the store is a PostgreSQL database. sqlite.go and postgres.go
// have the differences between the two; the rest is SQL that both understand.
//
// Errors name the journal and the action. A method writes all or nothing: after an error nothing was written, and the
// method may be retried. The one exception is ErrUncertain. Times have nanoseconds and are in UTC.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var (
	// ErrFinished, ErrBegun, ErrPaused and ErrLeaseLost are those of package reconfigure.
	ErrFinished  = reconfigure.ErrFinished
	ErrBegun     = reconfigure.ErrBegun
	ErrPaused    = reconfigure.ErrPaused
	ErrLeaseLost = reconfigure.ErrLeaseLost
	// ErrUncertain occurs only with PostgreSQL: the connection broke during a commit, so the transaction may or may
	// not be in the journal. A retry must expect both.
	ErrUncertain = errors.New("the connection broke during the commit: it may be written or not")
)

// retryFor is the longest wait for another process's transaction, and for a server that has no free connection or is
// starting. A transaction takes milliseconds, so only very many callers at once, or a stopped process, cause such a
// wait.
const retryFor = 30 * time.Second

// Journal is an open journal. Its methods may be called from several goroutines.
type Journal struct {
	db    *sql.DB
	store store
	name  string
	lease atomic.Pointer[lease] // nil: this Journal has no lease
	nodes knownNodes
}

// store has the differences between the two databases.
type store interface {
	// begin opens a transaction. Only one transaction is open at a time. The caller calls end after the transaction.
	begin(ctx context.Context, db *sql.DB) (tx *sql.Tx, end func(), err error)
	commit(tx *sql.Tx) error
	// elements returns the SQL function that converts a JSON array of strings to rows with a column "value".
	elements() string
	// lock acquires the lock of the lease without waiting. It returns nil if the lock is taken, also by this process.
	// The lock ends when the process ends, for any reason.
	lock(ctx context.Context) (*lock, error)
	// locked reports whether the lease is taken. It does not disturb an Acquire at the same time.
	locked(ctx context.Context, db *sql.DB) (bool, error)
	// size returns the SQL for the size of the database in bytes.
	size() string
	// meaning explains an error of the database to an administrator; empty if the error needs no explanation.
	meaning(err error) string
}

// Open opens the journal in the folder, and creates both if they are missing. A journal of an earlier version is
// copied to journal.db.SCHEMA-N, with the version of its schema, and then migrated. A journal of a later version, a
// folder that cannot be written or is on a network file system, and a damaged file are errors that a retry does not
// fix.
func Open(ctx context.Context, dir string) (*Journal, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: make its folder: %w", err)
	}
	// SQLite's own error is only "unable to open database file".
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, fmt.Errorf("journal: folder %s cannot be written: %w", dir, err)
	}
	if err := local(dir, unix.Statfs); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{store: sqliteStore{dir: dir, queue: 20 * time.Second}, name: filepath.Join(dir, FileName)}
	if j.db, err = openSQLite(ctx, j.name); err != nil {
		return nil, j.explain("open", err)
	}
	return j, nil
}

// OpenURL opens the journal in a PostgreSQL database, "postgres://user:password@host:port/database", or another
// connection string of libpq (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING);
// PGPASSWORD, ~/.pgpass and similar settings are used too. The database must exist. Missing tables are created, and
// tables of an earlier version are migrated. The connection must be to the server itself, since locks end with it: a
// pooler such as PgBouncer works only if it pools whole sessions. A connection to a server that is starting or has no
// free connection is retried for 30 seconds.
func OpenURL(ctx context.Context, url string) (*Journal, error) {
	store, err := newPostgres(url)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{store: store, name: store.name()}
	if j.db, err = store.open(ctx); err != nil {
		return nil, j.explain("open", err)
	}
	return j, nil
}

// Close closes the journal. It does not release a lease.
func (j *Journal) Close() error {
	return j.explain("close", j.db.Close())
}

// Name returns the journal's place: the path of its file, or the URL of its database without user and password.
func (j *Journal) Name() string { return j.name }

// Size returns the size of the journal's database in bytes. Space that Prune has freed counts.
func (j *Journal) Size(ctx context.Context) (bytes int64, err error) {
	err = j.db.QueryRowContext(ctx, j.store.size()).Scan(&bytes)
	return bytes, j.explain("read its size", err)
}

// Changed returns a number that grows with each write by another process than the holder of the lease: a request was
// submitted or cancelled, a pause began or ended. A waiting holder compares it with the previous number, which costs
// one row, instead of reading all pending requests.
func (j *Journal) Changed(ctx context.Context) (token int64, err error) {
	err = j.db.QueryRowContext(ctx, `SELECT count FROM changes`).Scan(&token)
	return token, j.explain("look for changes", err)
}

// write runs do in one transaction, and counts it as a change (see Changed).
func (j *Journal) write(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	return j.transact(ctx, doing, func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE changes SET count = count + 1`)
		return err
	})
}

// transact runs do in one transaction: all of it is durable when transact returns nil, and nothing of it is written
// when it returns an error.
func (j *Journal) transact(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	tx, end, err := j.store.begin(ctx, j.db)
	if err != nil {
		return j.explain(doing, err)
	}
	defer end()
	defer tx.Rollback() // of no effect after Commit
	if err := do(tx); err != nil {
		return j.explain(doing, err)
	}
	return j.explain(doing, j.store.commit(tx))
}

// read returns all rows of a query.
func read[T any](
	ctx context.Context, j *Journal, doing string, scan func(scanner) (T, error), query string, args ...any,
) ([]T, error) {
	rows, err := j.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, j.explain(doing, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, j.explain(doing, err)
		}
		all = append(all, one)
	}
	return all, j.explain(doing, rows.Err())
}

// scanner is the row of sql.Row and sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// first returns the only row of a query; false if there is none.
func first[T any](all []T, err error) (T, bool, error) {
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

// explain adds the journal's name, the action, and the meaning of the database's error to an error.
func (j *Journal) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := j.store.meaning(err); meaning != "" {
		return fmt.Errorf("journal %s: %s: %s: %w", j.name, doing, meaning, err)
	}
	return fmt.Errorf("journal %s: %s: %w", j.name, doing, err)
}

// stamp returns the time in the journal's form; the current time if t is zero.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return t.Round(0).UTC()
}

// unstamp is the inverse of stamp, for a value of the database.
func unstamp(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// text replaces what a text column of PostgreSQL rejects: invalid UTF-8 and NUL. Programs sometimes print both.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// unknown returns the error for a request that is not in the journal.
func unknown(id reconfigure.RequestID) error { return fmt.Errorf("there is no request %s", id) }
