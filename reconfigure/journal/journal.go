// Package journal is the durable record of a cluster directory: the requests, the batches that carried them, the events on the way, the outcomes, and who
// leads. Every call of the tool is a process of its own and opens it; what a method wrote is on the disk when it returns, and a process that is killed
// leaves a journal that the next one reads.
//
// It is a SQLite database in write-ahead mode (https://sqlite.org/wal.html), which needs shared memory: the folder MUST be on a file system of the host,
// not on a network one that several hosts write to. What is particular to SQLite stands in sqlite.go, the file locks in lead.go; the rest is plain SQL.
//
// Errors name the file and what was being done. A method that writes does all or nothing: after an error nothing of it is in the journal, so that it may be
// called again.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// ErrFinished is the answer to a second outcome, and to beginning what has its outcome.
var ErrFinished = errors.New("the request has its outcome already")

// Journal is an open journal. Its methods may be called from several goroutines.
type Journal struct {
	dir  string
	path string
	db   *sql.DB
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
	j := &Journal{dir: dir, path: filepath.Join(dir, "journal.db")}
	if j.db, err = openSQLite(ctx, j.path); err != nil {
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
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return j.explain(doing, err)
	}
	defer tx.Rollback() // of no effect after Commit
	if err := do(tx); err != nil {
		return j.explain(doing, err)
	}
	return j.explain(doing, tx.Commit())
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

// stamp is the time as the journal keeps it, now where none is given.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return t.Round(0).UTC()
}

// unstamp is a time as it was kept.
func unstamp(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// unknown tells of a request that is not in the journal.
func unknown(id reconfigure.RequestID) error { return fmt.Errorf("there is no request %s", id) }
