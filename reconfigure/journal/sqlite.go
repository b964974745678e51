package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// busyTimeout bounds the wait for another process's transaction. One takes milliseconds, so only a storm of callers or a stopped process comes near it.
const busyTimeout = 30 * time.Second

//go:embed schema/*.sql
var schemaFiles embed.FS

// schema is the migrations in order. The number of those that were carried out is the database's user_version.
//
// The libraries for migrations were looked at: for SQLite they take no lock between processes, and here every call of the tool may be the first.
func schema() ([]string, error) {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	migrations := make([]string, len(names))
	for i, name := range names {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		migrations[i] = string(text)
	}
	return migrations, nil
}

// openSQLite opens the database and brings its schema up to date.
func openSQLite(ctx context.Context, path string) (*sql.DB, error) {
	migrations, err := schema()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	// The writers of one process queue up for one connection, which is fairer and quicker than to poll for SQLite's lock.
	db.SetMaxOpenConns(1)
	if err := prepare(ctx, db, path, migrations); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// dsn is the database's address with the settings of each connection.
func dsn(path string) string {
	settings := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
			"synchronous(FULL)", // in write-ahead mode, NORMAL would lose the last commits with the power
			"foreign_keys(ON)",
		},
		// A transaction takes the write lock at its start: one that began by reading could not wait for it any more.
		"_txlock": {"immediate"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}).String()
}

// prepare makes the database what this version of the tool expects. It may be killed at any point and run again.
func prepare(ctx context.Context, db *sql.DB, path string, migrations []string) error {
	if done, err := upToDate(ctx, db, len(migrations)); done || err != nil {
		return err
	}
	// SQLite does not wait for others while it changes to write-ahead mode; so one process at a time does.
	lock := flock.New(path + "-setup")
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if done, err := upToDate(ctx, db, len(migrations)); done || err != nil {
		return errors.Join(err, lock.Unlock())
	}
	return errors.Join(migrate(ctx, db, migrations), lock.Unlock())
}

// upToDate tells whether all of the migrations were carried out; more than those is an error.
func upToDate(ctx context.Context, db *sql.DB, migrations int) (bool, error) {
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return false, err
	}
	if version > migrations {
		return false, fmt.Errorf("its schema has version %d, and this reconfigure knows up to %d: a newer one wrote it; use that one", version, migrations)
	}
	return version == migrations, nil
}

// migrate carries out the migrations that are missing, all or none.
func migrate(ctx context.Context, db *sql.DB, migrations []string) error {
	if _, err := db.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of no effect after Commit
	var version int
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	for i, migration := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, migration); err != nil {
			return fmt.Errorf("bring its schema to version %d: %w", version+i+1, err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}

// explain says which journal it is, what was being done, and what an error of SQLite means here.
func (j *Journal) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		if meaning := meaning(e.Code()); meaning != "" {
			return fmt.Errorf("journal %s: %s: %s: %w", j.path, doing, meaning, err)
		}
	}
	return fmt.Errorf("journal %s: %s: %w", j.path, doing, err)
}

// meaning puts SQLite's result codes (https://sqlite.org/rescode.html) that an administrator can do something about into words. The low byte is the kind.
func meaning(code int) string {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return "the disk is full, nothing of it was written"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the file is damaged; bring it back from a backup, or move it and its -wal and -shm away to begin a new one"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return "the file cannot be opened for writing"
	case sqlite3.SQLITE_BUSY:
		return fmt.Sprintf("another process kept it locked for %s", busyTimeout)
	}
	return ""
}
