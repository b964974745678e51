package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// apart runs the test again in a process with separate mounts or a separate network, which end with that process. It
// needs root. It returns true in that process, and false in the first one, after the test has run.
func apart(t *testing.T, namespaces uintptr) (here bool) {
	t.Helper()
	const inside = "EIFFEL_JOURNAL_TEST_APART"
	if os.Getenv(inside) != "" {
		return true
	}
	needs.Lab(t)
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), inside+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("in namespaces of its own (needs root): %v\n%s", err, out)
	}
	return false
}

// tmpfs returns a folder that is a small file system; see apart.
func tmpfs(t *testing.T, size string) (dir string, here bool) {
	t.Helper()
	if !apart(t, unix.CLONE_NEWNS) {
		return "", false
	}
	dir = t.TempDir()
	noError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

func wants(t *testing.T, err error, phrases ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, phrase := range phrases {
		if !strings.Contains(err.Error(), phrase) {
			t.Errorf("%q does not say %q", err, phrase)
		}
	}
}

func TestAFullDiskIsAClearErrorAndWritesNothingHalf(t *testing.T) {
	dir, here := tmpfs(t, "1m")
	if !here {
		return
	}
	ballast := filepath.Join(dir, "ballast")
	noError(t, os.WriteFile(ballast, make([]byte, 256<<10), 0o600))
	j := open(t, dir)
	r := submit(t, j, "n1")
	plan := begin(t, j, r)

	many := make([]reconfigure.Event, 100)
	for i := range many {
		many[i] = event(plan, "n1", strings.Repeat("x", 100))
	}
	var submitted, recorded int
	for {
		_, err := j.Submit(t.Context(),
			reconfigure.Request{Mode: reconfigure.Resume, Reason: strings.Repeat("y", 5000)})
		if err != nil {
			wants(t, err, filepath.Join(dir, "journal.db"), "submit", "the disk is full")
			break
		}
		submitted++
		if err := j.Record(t.Context(), many...); err != nil {
			wants(t, err, filepath.Join(dir, "journal.db"), "record", "the disk is full")
			break
		}
		recorded += len(many)
	}
	if submitted == 0 || recorded == 0 {
		t.Errorf("%d requests and %d events before the disk was full", submitted, recorded)
	}
	if n := len(must(j.Pending(t.Context()))(t)); n != submitted+1 {
		t.Errorf("%d requests are kept of %d", n, submitted+1)
	}
	if n := len(must(j.Events(t.Context(), r.ID, 0))(t)); n != recorded {
		t.Errorf("%d events are kept of %d", n, recorded)
	}

	noError(t, os.Remove(ballast))
	submit(t, j, "n2")
	noError(t, j.Record(t.Context(), many...))
}

func TestReadOnlyFolderIsAClearError(t *testing.T) {
	dir, here := tmpfs(t, "1m")
	if !here {
		return
	}
	j, err := Open(t.Context(), dir)
	noError(t, err)
	submit(t, j, "n1")
	noError(t, j.Close())
	noError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = Open(t.Context(), dir)
	wants(t, err, dir, "cannot be written", "read-only file system")
	_, err = Open(t.Context(), filepath.Join(dir, "state"))
	wants(t, err, filepath.Join(dir, "state"), "read-only file system")
}

func TestAFileWhereTheFolderShouldBeIsAClearError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	noError(t, os.WriteFile(dir, nil, 0o600))
	_, err := Open(t.Context(), dir)
	wants(t, err, dir, "not a directory")
}

func TestAFolderWhereTheFileShouldBeIsAClearError(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.Mkdir(filepath.Join(dir, "journal.db"), 0o700))
	_, err := Open(t.Context(), dir)
	wants(t, err, filepath.Join(dir, "journal.db"), "cannot be opened for writing")
}

func TestADamagedFileIsAClearErrorAndIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	junk := strings.Repeat("no database at all\n", 1000)
	noError(t, os.WriteFile(path, []byte(junk), 0o600))
	_, err := Open(t.Context(), filepath.Dir(path))
	wants(t, err, path, "open", "damaged")
	if now, err := os.ReadFile(path); err != nil || string(now) != junk {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestDamageInsideTheFileIsAClearError(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(t.Context(), dir)
	noError(t, err)
	for range 50 {
		submit(t, j, "n1")
	}
	var size int
	noError(t, j.db.QueryRowContext(t.Context(), `PRAGMA page_size`).Scan(&size))
	scan := func(row scanner) (page int, err error) { return page, row.Scan(&page) }
	pages, err := read(t.Context(), j, "find its pages", scan,
		`SELECT rootpage FROM sqlite_master WHERE tbl_name = 'requests' AND rootpage > 0`)
	noError(t, err)
	noError(t, j.Close())
	path := filepath.Join(dir, "journal.db")
	content, err := os.ReadFile(path)
	noError(t, err)
	for _, page := range pages { // the schema's pages are not among them
		copy(content[(page-1)*size:page*size], bytes.Repeat([]byte{0xa5}, size))
	}
	noError(t, os.WriteFile(path, content, 0o600))
	_, err = open(t, dir).Pending(t.Context())
	wants(t, err, path, "read the pending requests", "damaged")
}

func TestJournalOfANewerVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(t.Context(), dir)
	noError(t, err)
	if _, err := j.db.ExecContext(t.Context(), `PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	noError(t, j.Close())
	_, err = Open(t.Context(), dir)
	wants(t, err, filepath.Join(dir, "journal.db"), "version 99", "newer")
}

func TestOpenAndWriteEndWithTheirContext(t *testing.T) {
	j := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if _, err := j.Submit(ctx, reconfigure.Request{Mode: reconfigure.Resume}); !errors.Is(err, context.Canceled) {
		t.Errorf("submit: %v", err)
	}
	if waiting := must(j.Pending(t.Context()))(t); len(waiting) != 0 {
		t.Errorf("kept %+v", waiting)
	}
}

func TestEveryCommitIsOnTheDiskBeforeItReturns(t *testing.T) {
	j := open(t, t.TempDir())
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		noError(t, j.db.QueryRow(`PRAGMA `+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, not %s", pragma, got, want)
		}
	}
}
