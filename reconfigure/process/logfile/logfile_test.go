package logfile

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written opens a log and writes a line to it; the log stays open until the test closes it or ends.
func written(t *testing.T, l Folder, name, line string) *os.File {
	t.Helper()
	file, err := l.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if _, err := file.WriteString(line); err != nil {
		t.Fatal(err)
	}
	return file
}

func shut(t *testing.T, files ...*os.File) {
	t.Helper()
	for _, file := range files {
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// demandLogs compares the files in the folder, by name.
func demandLogs(t *testing.T, what string, l Folder, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(l.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(path)] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: logs %v (-want +got):\n%s", what, slices.Sorted(maps.Keys(got)), diff)
	}
}

func TestLogsAreSetAsideEachDayAndRemovedWhenTheyAreOld(t *testing.T) {
	const day = 24 * time.Hour
	l := Folder{t.TempDir()}
	today := time.Now()
	on := func(days int) string { return today.Add(time.Duration(days) * day).Format(time.DateOnly) }
	prune := func(days int) {
		t.Helper()
		now := today.Add(time.Duration(days) * day)
		if err := l.Prune(now, now.Add(-10*day)); err != nil {
			t.Fatal(err)
		}
	}

	shut(t, written(t, l, "worker.log", "first\n"), written(t, l, "empty.log", ""))
	inUse := written(t, l, "ansible.log", "one\n")
	prune(0)
	demandLogs(
		t,
		"the first day",
		l,
		map[string]string{"worker.log." + on(0): "first\n", "empty.log": "", "ansible.log": "one\n"},
	)

	shut(t, written(t, l, "worker.log", "second\n"), inUse)
	prune(0)
	demandLogs(t, "the same day again", l, map[string]string{
		"worker.log." + on(0): "first\n", "worker.log": "second\n", "empty.log": "", "ansible.log." + on(0): "one\n",
	})
	prune(1)
	demandLogs(t, "the next day", l, map[string]string{
		"worker.log." + on(0): "first\n", "worker.log." + on(1): "second\n", "empty.log": "", "ansible.log." + on(0): "one\n",
	})

	// For example, another host has set aside the log of a process that still has it open.
	reader, err := Folder{l.Dir}.Open("worker.log." + on(0))
	if err != nil {
		t.Fatal(err)
	}
	prune(11)
	demandLogs(t, "eleven days later", l, map[string]string{"worker.log." + on(0): "first\n", "empty.log": ""})
	shut(t, reader)
	prune(12)
	demandLogs(t, "when nobody has it open any more", l, map[string]string{"empty.log": ""})
}

func TestAWorkerThatStaysGoesOnInANewLog(t *testing.T) {
	l := Folder{t.TempDir()}
	output := written(t, l, "worker.log", "old\n")
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = output, output

	other := written(t, l, "worker.log", "another's\n")
	now := time.Now()
	prune := func() {
		t.Helper()
		if err := l.Prune(now, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	demandLogs(t, "while another process writes to it, too", l, map[string]string{"worker.log": "old\nanother's\n"})
	shut(t, other)
	prune()
	if _, err := os.Stderr.WriteString("new\n"); err != nil {
		t.Fatal(err)
	}
	demandLogs(
		t,
		"afterwards",
		l,
		map[string]string{"worker.log." + now.Format(time.DateOnly): "old\nanother's\n", "worker.log": "new\n"},
	)

	now = now.Add(24 * time.Hour)
	os.Stdout, os.Stderr = stdout, stderr // as another process sees it
	prune()
	demandLogs(t, "it is in use, the one that was set aside not", l, map[string]string{"worker.log": "new\n"})
}
