package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the name of a journal in SQLite, in its folder.
const FileName = "journal.db"

// sqliteStore is a SQLite database in a folder, and the lock files beside it.
type sqliteStore struct {
	dir   string
	queue time.Duration // how long a writer waits for its turn
}

// The lease is a lock on one file. The holder locks a second file too, for readers: a reader tests a lock by locking
// the file for a moment, which must not make an Acquire fail. The names are those of the first versions, so that
// processes of an earlier version and of this one exclude each other.
const (
	leaseFile  = "lead.lock"
	holderFile = "leader"
	queueFile  = "writers.lock"
	// formerFile is a lock of earlier versions, no longer used.
	formerFile = "watch.lock"
)

// openSQLite opens the database and brings its schema up to date. It creates the file itself, since SQLite would let
// everybody read it; SQLite gives the files beside it the same mode. It does not open the file for that: closing it would
// release SQLite's locks in this process.
func openSQLite(ctx context.Context, path string) (*sql.DB, error) {
	if err := unix.Mknod(path, unix.S_IFREG|0o600, 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	// The writers of one process queue for one connection. This is fairer and faster than polling for SQLite's lock.
	db.SetMaxOpenConns(1)
	p, err := migrator(goose.DialectSQLite3, "sqlite", db)
	if err == nil {
		err = prepareSQLite(ctx, db, path, p)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// dsn returns the URL of the database with the settings of each connection.
func dsn(path string) string {
	settings := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", retryFor.Milliseconds()),
			"synchronous(FULL)", // in write-ahead mode, NORMAL may lose the last commits in a power failure
			"foreign_keys(ON)",
		},
		// A transaction takes the write lock at its start: a transaction that has read cannot wait for the lock.
		"_txlock": {"immediate"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}).String()
}

// prepareSQLite migrates the database to this version. It may be killed at any point and run again.
func prepareSQLite(ctx context.Context, db *sql.DB, path string, p *goose.Provider) error {
	if done, err := sqliteUpToDate(ctx, db, p); done || err != nil {
		return err
	}
	// Several processes may open a new journal at once. SQLite does not wait for others while it changes to write-ahead
	// mode, and the migration library does not wait either.
	lock := flock.New(path + "-setup")
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	return errors.Join(migrateSQLite(ctx, db, path, p), lock.Unlock())
}

// sqliteSchema returns the versions of the database and of the migrations.
func sqliteSchema(ctx context.Context, db *sql.DB, p *goose.Provider) (Schema, error) {
	version, err := sqliteVersion(ctx, db)
	return Schema{Version: version, Newest: newestOf(p)}, err
}

// sqliteVersion reads the user_version from the file's header. Each migration sets it, since versions of this tool
// without the migration library read it too.
func sqliteVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version)
	return version, err
}

func sqliteUpToDate(ctx context.Context, db *sql.DB, p *goose.Provider) (bool, error) {
	s, err := sqliteSchema(ctx, db, p)
	if err != nil {
		return false, err
	}
	return s.upToDate()
}

func migrateSQLite(ctx context.Context, db *sql.DB, path string, p *goose.Provider) error {
	was, err := sqliteSchema(ctx, db, p)
	if err != nil {
		return err
	}
	if done, err := was.upToDate(); done || err != nil {
		return err // another process has migrated it
	}
	if was.Version > 0 {
		if err := copyTo(ctx, db, CopyName(path, was.Version)); err != nil {
			return fmt.Errorf("copy it before its schema changes: %w", err)
		}
	}
	if _, err := db.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return err
	}
	if err := adopt(ctx, db); err != nil {
		return err
	}
	if err := migrate(ctx, p); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), formerFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// adopt adds the migrations that were run without the library, those up to user_version, to the library's table.
func adopt(ctx context.Context, db *sql.DB) error {
	store, err := database.NewStore(database.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of no effect after Commit
	var known bool
	const exists = `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1)`
	if err := tx.QueryRowContext(ctx, exists, store.Tablename()).Scan(&known); err != nil || known {
		return err
	}
	var version int64
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if err := store.CreateVersionTable(ctx, tx); err != nil {
		return err
	}
	for v := range version + 1 { // the library counts from version 0, the empty database
		if err := store.Insert(ctx, tx, database.InsertRequest{Version: v}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s sqliteStore) begin(ctx context.Context, db *sql.DB) (tx *sql.Tx, end func(), err error) {
	leave := s.awaitTurn(ctx)
	if tx, err = db.BeginTx(ctx, nil); err != nil {
		leave()
		return nil, nil, err
	}
	return tx, leave, nil
}

// awaitTurn waits for the writing processes, in the order of their arrival: SQLite polls for its own lock, at
// intervals that grow to 100 ms, so hundreds of callers at once would mostly sleep. It only saves time. SQLite's lock
// still separates the writers, so an error, or a process that keeps the queue waiting, ends the wait.
func (s sqliteStore) awaitTurn(ctx context.Context) (leave func()) {
	if ctx.Err() != nil {
		return func() {} // the goroutine would open the file after the call
	}
	queue := flock.New(filepath.Join(s.dir, queueFile), flock.SetPermissions(0o600))
	turn := make(chan struct{})
	go func() { // flock(2) cannot be cancelled
		defer close(turn)
		_ = queue.Lock()
	}()
	unlock := func() { _ = queue.Unlock() }
	select {
	case <-turn:
		return unlock
	case <-ctx.Done():
	case <-time.After(s.queue):
	}
	go func() {
		<-turn
		unlock()
	}()
	return func() {}
}

func (sqliteStore) commit(tx *sql.Tx) error { return tx.Commit() }

func (sqliteStore) elements() string { return "json_each" }

func (sqliteStore) size() string {
	return `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`
}

// lock takes a lock of the kernel (flock(2)), which ends with the process and is not lost before.
func (s sqliteStore) lock(ctx context.Context) (*lock, error) {
	file := flock.New(filepath.Join(s.dir, leaseFile))
	if ok, err := file.TryLock(); err != nil || !ok {
		return nil, err
	}
	shown := flock.New(filepath.Join(s.dir, holderFile))
	if _, err := shown.TryLockContext(ctx, time.Millisecond); err != nil { // readers lock it for a moment
		return nil, errors.Join(err, file.Unlock())
	}
	release := func() error { return errors.Join(shown.Unlock(), file.Unlock()) }
	return &lock{context.WithoutCancel(ctx), release}, nil
}

func (s sqliteStore) locked(context.Context, *sql.DB) (bool, error) {
	file := flock.New(filepath.Join(s.dir, holderFile), flock.SetFlag(os.O_RDONLY))
	free, err := file.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nobody has ever had it
	}
	if err != nil || !free {
		return err == nil, err
	}
	return false, file.Unlock()
}

// meaning returns what an administrator can do about a result code (https://sqlite.org/rescode.html).
func (sqliteStore) meaning(err error) string {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return ""
	}
	if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // when the first process opens the journal on a full disk
		return "the disk is full, nothing was written"
	}
	switch e.Code() & 0xff { // the low byte is the primary result code
	case sqlite3.SQLITE_FULL:
		return "the disk is full, nothing was written"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the file is damaged; restore it from a backup, or move it and its -wal and -shm away to begin a new one"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return "the file cannot be opened for writing"
	case sqlite3.SQLITE_BUSY:
		return fmt.Sprintf("another process kept it locked for %s", retryFor)
	}
	return ""
}
