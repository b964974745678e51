// Package journal is the durable record of a cluster: the requests, the batches that carried them, the events on the way, the evidence of what failed, the
// outcomes, whether the worker is paused, and who leads. Every call of the tool is a process of its own and opens it; what a method wrote is on the disk when it returns, and a process
// that is killed leaves a journal that the next one reads.
//
// It is kept by a SQLite database in the state folder, in write-ahead mode (https://sqlite.org/wal.html), which needs shared memory: the folder MUST be on
// a file system of the host, not on a network one that several hosts write to. Where several control hosts share a cluster, a PostgreSQL database keeps it.
// What is particular to the one stands in sqlite.go, to the other in postgres.go; the rest is SQL that both understand.
//
// Errors name the journal and what was being done. A method that writes does all or nothing: after an error nothing of it is in the journal, so that it
// may be called again; but see ErrUncertain.
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
	// ErrFinished is the answer to a second outcome, and to beginning what has its outcome.
	ErrFinished = errors.New("the request has its outcome already")
	// ErrBegun is the answer to taking back what a batch may have done something for already.
	ErrBegun = errors.New("the request has begun already")
	// ErrPaused is the answer to beginning anything during a pause.
	ErrPaused = errors.New("it is paused")
	// ErrLeaseLost is the answer to writing as a leader that leads no more.
	ErrLeaseLost = reconfigure.ErrLeaseLost
	// ErrUncertain is PostgreSQL's alone: the connection broke while a transaction was being committed, so it may or may not be in the journal. Who tries
	// again must bear with both.
	ErrUncertain = errors.New("the connection broke at the last moment: it may be written or not")
)

// patience bounds the wait for another process's transaction, and for a server that is short of connections or about to start. A transaction takes
// milliseconds, so only a storm of callers or a stopped process comes near it.
const patience = 30 * time.Second

// Journal is an open journal. Its methods may be called from several goroutines.
type Journal struct {
	db    *sql.DB
	store store
	name  string // what people know it by
	reign atomic.Pointer[reign]
}

// store is what the two databases do not have in common.
type store interface {
	// begin opens a transaction that is the only one that writes.
	begin(ctx context.Context, db *sql.DB) (*sql.Tx, error)
	commit(tx *sql.Tx) error
	// elements is the SQL function that makes rows, with a column value, of a JSON array of strings.
	elements() string
	// lead and watch take a lock without waiting; nil where another one has it, be it in this process. It ends with the process, whatever ends that.
	lead(ctx context.Context) (*held, error)
	watch(ctx context.Context) (*held, error)
	// led tells whether anybody has the lead, and keeps nobody from taking it.
	led(ctx context.Context, db *sql.DB) (bool, error)
	// meaning says what an error of the database means to an administrator; empty where it speaks for itself.
	meaning(err error) string
}

// Open opens the journal in the folder, and makes both where they are not there yet. A journal of an earlier version is brought up to date; one of a later
// version, a folder that cannot be written and a damaged file are errors that trying again does not mend.
func Open(ctx context.Context, dir string) (*Journal, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: make its folder: %w", err)
	}
	// SQLite would say no more than "unable to open database file".
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, fmt.Errorf("journal: folder %s cannot be written: %w", dir, err)
	}
	j := &Journal{store: sqliteStore{dir}, name: filepath.Join(dir, "journal.db")}
	if j.db, err = openSQLite(ctx, j.name); err != nil {
		return nil, j.explain("open", err)
	}
	return j, nil
}

// OpenURL opens the journal in a PostgreSQL database, "postgres://user:password@host:port/database", or another connection string of libpq's
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING); PGPASSWORD, ~/.pgpass and the like count too. The database must be there;
// the tables are made in it, where they are not there yet or of an earlier version. The connection must be to the server itself, since locks end with it:
// a pooler such as PgBouncer may not stand between them unless it pools whole sessions.
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

// Close closes the journal. A lead that is held stays held until it is released.
func (j *Journal) Close() error {
	return j.explain("close", j.db.Close())
}

// write runs do in one transaction: all of it is durable when write returns nil, and nothing of it is there when it returns an error.
func (j *Journal) write(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	tx, err := j.store.begin(ctx, j.db)
	if err != nil {
		return j.explain(doing, err)
	}
	defer tx.Rollback() // of no effect after Commit
	if err := do(tx); err != nil {
		return j.explain(doing, err)
	}
	return j.explain(doing, j.store.commit(tx))
}

// read collects the rows of a query.
func read[T any](ctx context.Context, j *Journal, doing string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
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

// first is the only row of a query; false where there is none.
func first[T any](all []T, err error) (T, bool, error) {
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

// explain says which journal it is, what was being done, and what an error of the database means here.
func (j *Journal) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := j.store.meaning(err); meaning != "" {
		return fmt.Errorf("journal %s: %s: %s: %w", j.name, doing, meaning, err)
	}
	return fmt.Errorf("journal %s: %s: %w", j.name, doing, err)
}

// stamp is the time as the journal keeps it, now where none is given.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return t.Round(0).UTC()
}

// unstamp is a time as it was kept.
func unstamp(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// text is what a column of text takes: PostgreSQL refuses bytes that programs do print at times, and what they say must not be lost for them.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// unknown tells of a request that is not in the journal.
func unknown(id reconfigure.RequestID) error { return fmt.Errorf("there is no request %s", id) }
