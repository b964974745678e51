package journal

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// versionOf opens a database without migrating it, and returns its version and its number of requests.
func versionOf(t *testing.T, path string) (version int64, requests int) {
	t.Helper()
	db := must(sql.Open("sqlite", dsn(path)))(t)
	defer func() { noError(t, db.Close()) }()
	noError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM requests`).Scan(&requests))
	return must(sqliteVersion(t.Context(), db))(t), requests
}

func TestAJournalIsCopiedBeforeItsSchemaChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	earlier(t, path, 2)
	manyOpen(t, dir) // all at once: one of them copies it
	kept := CopyName(path, 2)
	if version, requests := versionOf(t, kept); version != 2 || requests != 2 {
		t.Errorf("the copy has version %d and %d requests", version, requests)
	}
	if info := must(os.Stat(kept))(t); info.Mode() != 0o600 {
		t.Errorf("the mode of the copy is %s", info.Mode())
	}
	copies := must(filepath.Glob(path + ".*"))(t)
	if d := cmp.Diff([]string{kept}, copies); d != "" {
		t.Errorf("copies (-want +got):\n%s", d)
	}
}

func TestANewJournalIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if copies := must(filepath.Glob(filepath.Join(dir, "journal.db.*")))(t); len(copies) != 0 {
		t.Errorf("there are the copies %q", copies)
	}
}

func TestAJournalThatCannotBeCopiedStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	earlier(t, path, 2)
	noError(t, os.MkdirAll(filepath.Join(CopyName(path, 2)+".unfinished", "folder"), 0o700))
	_, err := Open(t.Context(), dir)
	wants(t, err, "copy it before its schema changes", "SCHEMA-2.unfinished")
	if version, requests := versionOf(t, path); version != 2 || requests != 2 {
		t.Errorf("the journal has version %d and %d requests", version, requests)
	}
}

// TestACopyIsCompleteOrMissing ends a copy before each of its steps.
func TestACopyIsCompleteOrMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	earlier(t, path, 2)
	db := must(sql.Open("sqlite", dsn(path)))(t)
	defer func() { noError(t, db.Close()) }()
	defer func() { copyStep = func() {} }()
	kept := CopyName(path, 2)
	for last := 1; ; last++ {
		steps, ended := 0, false
		copyStep = func() {
			if steps++; steps == last {
				panic("ended")
			}
		}
		func() {
			defer func() { ended = recover() != nil }()
			noError(t, copyTo(t.Context(), db, kept))
		}()
		if _, err := os.Stat(kept); err == nil {
			if version, requests := versionOf(t, kept); version != 2 || requests != 2 {
				t.Errorf("ended at step %d: the copy has version %d and %d requests", last, version, requests)
			}
			noError(t, os.Remove(kept))
		} else if !errors.Is(err, fs.ErrNotExist) || !ended {
			t.Errorf("ended at step %d: there is no copy: %v", last, err)
		}
		if !ended {
			return
		}
	}
}

func TestTheSchemaOfAJournalIsReadWithoutAMigration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	s, held, err := SchemaOf(t.Context(), dir)
	noError(t, err)
	if s.Version != 0 || s.Newest < 13 || held {
		t.Errorf("without a journal: %+v, held: %v", s, held)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a journal was made: %v", err)
	}
	earlier(t, path, 2)
	if s, _, err = SchemaOf(t.Context(), dir); err != nil || s.Version != 2 {
		t.Errorf("version %d, error %v", s.Version, err)
	}
	if version, _ := versionOf(t, path); version != 2 {
		t.Errorf("the journal has version %d", version)
	}
	other := t.TempDir()
	noError(t, Copy(t.Context(), dir, other))
	j := open(t, other)
	if got := len(must(j.Requests(t.Context(), 9))(t)); got != 2 {
		t.Errorf("the copy has %d requests", got)
	}

	j = open(t, dir)
	release, _, err := j.Acquire(t.Context())
	noError(t, err)
	if s, held, err = SchemaOf(t.Context(), dir); err != nil || s.Version != s.Newest || !held {
		t.Errorf("%+v, held: %v, error %v", s, held, err)
	}
	noError(t, release())
	if _, err := j.db.ExecContext(t.Context(), `PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	_, _, err = SchemaOf(t.Context(), dir)
	wants(t, err, "version 99", "newer")
}
