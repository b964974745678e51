package journal

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestARestoreOfAJournalMayBeRepeated prepares a copy twice.
func TestARestoreOfAJournalMayBeRepeated(t *testing.T) {
	j := open(t, t.TempDir())
	r := submit(t, j, "n1")
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	noError(t, j.Copy(t.Context(), path))
	if err := j.Copy(t.Context(), path); err == nil {
		t.Error("a copy has replaced a file")
	}
	restored := open(t, dir)
	for i, want := range []int64{1, 0} {
		cancelled, err := restored.Restored(t.Context(), time.Now())
		if err != nil || cancelled != want {
			t.Errorf("call %d has cancelled %d requests: %v", i+1, cancelled, err)
		}
	}
	if _, found, err := restored.Outcome(t.Context(), r.ID); err != nil || !found {
		t.Errorf("request %s has no outcome: %v", r.ID, err)
	}
	if pending, err := j.Pending(t.Context()); err != nil || len(pending) != 1 {
		t.Errorf("the journal that was copied: %v, %v", pending, err)
	}
}

func TestAJournalInADatabaseIsNotCopied(t *testing.T) {
	j := &Journal{store: postgresStore{}, name: "postgres://db/eiffel"}
	if err := j.Copy(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, ErrDatabase) {
		t.Errorf("%v", err)
	}
}

// TestTheSchemaOfABackupIsThatOfTheJournal compares the number with that in the database.
func TestTheSchemaOfABackupIsThatOfTheJournal(t *testing.T) {
	j := open(t, t.TempDir())
	var is int64
	noError(t, j.db.QueryRowContext(t.Context(), `PRAGMA user_version`).Scan(&is))
	if newest, err := NewestSchema(); err != nil || newest != is {
		t.Errorf("%d, and the journal has %d: %v", newest, is, err)
	}
}

// TestANewJournalBeginsAboveTheNumbersOfALostOne begins to recover twice, with requests between.
func TestANewJournalBeginsAboveTheNumbersOfALostOne(t *testing.T) {
	beginsAbove(t, open(t, t.TempDir()))
}

func beginsAbove(t *testing.T, j *Journal) {
	t.Helper()
	last := reconfigure.RequestID(1_000_000)
	for range 2 {
		noError(t, j.Recovering(t.Context()))
		if p, paused, err := j.Paused(t.Context()); err != nil || !paused || p.By != Recoverer {
			t.Errorf("the pause is %+v, %v, %v", p, paused, err)
		}
		r := submit(t, j, "n1")
		if r.ID <= last || last > 1_000_000 && r.ID != last+1 {
			t.Errorf("after request %s comes %s", last, r.ID)
		}
		last = r.ID
	}
}
