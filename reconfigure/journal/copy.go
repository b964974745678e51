package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
)

// Schema has the versions of a journal's schema: that of the journal, 0 if there is none yet, and the newest one, which
// Open migrates it to.
type Schema struct {
	Version int64 `json:"version"`
	Newest  int64 `json:"newest"`
}

// SchemaOf returns the versions for the SQLite journal in a folder, and whether a worker has its lease. It neither
// creates nor migrates the journal. A version that is newer than the newest one is an error, as in Open. It may be
// retried.
func SchemaOf(ctx context.Context, dir string) (s Schema, held bool, err error) {
	j := &Journal{store: sqliteStore{dir: dir}, name: filepath.Join(dir, FileName)}
	if _, err := os.Stat(j.name); errors.Is(err, fs.ErrNotExist) {
		s.Newest, err = newest(goose.DialectSQLite3, "sqlite")
		return s, false, err
	}
	if j.db, err = sql.Open("sqlite", dsn(j.name)); err != nil {
		return s, false, j.explain("open", err)
	}
	defer j.db.Close()
	if s, err = schemaOf(ctx, goose.DialectSQLite3, "sqlite", j.db, sqliteVersion); err != nil {
		return s, false, j.explain("read the version of its schema", err)
	}
	held, err = j.store.locked(ctx, j.db)
	return s, held, j.explain("see whether a worker runs", err)
}

// SchemaOfURL is SchemaOf for a journal in PostgreSQL. It does not report whether a worker has the lease.
func SchemaOfURL(ctx context.Context, url string) (Schema, error) {
	store, err := newPostgres(url)
	if err != nil {
		return Schema{}, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{store: store, name: store.name(), db: store.connect()}
	defer j.db.Close()
	s, err := schemaOf(ctx, goose.DialectPostgres, "postgres", j.db, postgresVersion)
	return s, j.explain("read the version of its schema", err)
}

func schemaOf(ctx context.Context, dialect goose.Dialect, folder string, db *sql.DB,
	read func(context.Context, *sql.DB) (int64, error),
) (s Schema, err error) {
	if s.Newest, err = newest(dialect, folder); err != nil {
		return s, err
	}
	if s.Version, err = read(ctx, db); err != nil {
		return s, err
	}
	_, err = s.upToDate()
	return s, err
}

// newest returns the newest version in the folder of the migrations with that name.
func newest(dialect goose.Dialect, folder string) (int64, error) {
	p, err := migrator(dialect, folder, &sql.DB{}) // it lists the migrations, and is not run
	if err != nil {
		return 0, err
	}
	return newestOf(p), nil
}

// Copy writes a consistent copy of the SQLite journal in a folder to another folder. Others may use the journal
// meanwhile. The copy is complete or missing; one of an earlier call is replaced. It may be retried.
func Copy(ctx context.Context, dir, to string) error {
	j := &Journal{store: sqliteStore{dir: dir}, name: filepath.Join(dir, FileName)}
	db, err := sql.Open("sqlite", dsn(j.name))
	if err != nil {
		return j.explain("copy", err)
	}
	defer db.Close()
	return j.explain("copy", copyTo(ctx, db, filepath.Join(to, FileName)))
}

// CopyName returns the path of the copy of a journal that is made before the schema with this version changes.
func CopyName(path string, version int64) string { return fmt.Sprintf("%s.SCHEMA-%d", path, version) }

// copyStep is called before each change of the file system, for tests.
var copyStep = func() {}

// copyTo writes a copy of a database to a file that its owner alone may read. The file is complete or missing, also
// after a kill or a power failure. Only one process at a time may call it for one file.
func copyTo(ctx context.Context, db *sql.DB, path string) (err error) {
	unfinished := path + ".unfinished"
	copyStep()
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed call
		return err
	}
	copyStep()
	if err := unix.Mknod(unfinished, unix.S_IFREG|0o600, 0); err != nil { // VACUUM would let everybody read it
		return fmt.Errorf("create %s: %w", unfinished, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(unfinished)))
		}
	}()
	copyStep()
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, unfinished); err != nil {
		return err
	}
	if err := toDisk(unfinished); err != nil {
		return err
	}
	copyStep()
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	copyStep()
	return toDisk(filepath.Dir(path))
}

// toDisk writes a file or folder to the disk.
func toDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
