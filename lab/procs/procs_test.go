package procs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// TestMarkedProcessesAreFoundAndEnded runs a shell with a child in a separate session, and a process without the mark.
func TestMarkedProcessesAreFoundAndEnded(t *testing.T) {
	dir := t.TempDir()
	entry := "EIFFEL_PROCS=" + dir
	start := func(script string, environ ...string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = cmd.Wait() }()
		return cmd
	}
	start("setsid sleep 1000 & sleep 1000; :", entry)
	other := start("touch other; exec sleep 1000", entry+"-longer")
	defer func() { _ = other.Process.Kill() }()

	sleeps := func(ps []procs.Process) (n int) {
		for _, p := range ps {
			if slices.Equal(p.Args, []string{"sleep", "1000"}) {
				n++
			}
		}
		return n
	}
	mark := procs.Variable(entry)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found, err := procs.Find(mark)
		if err != nil {
			t.Fatal(err)
		}
		_, running := os.Stat(filepath.Join(dir, "other"))
		if len(found) == 3 && sleeps(found) == 2 && running == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("found are %v", found)
		}
	}
	if ended, err := procs.End(mark); err != nil || len(ended) != 3 {
		t.Errorf("ended are %v, error %v", ended, err)
	}
	if left, err := procs.Find(mark); err != nil || len(left) != 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
	prefix := procs.Environment(func(e string) bool { return strings.HasPrefix(e, entry) })
	if left, err := procs.Find(prefix); err != nil || len(left) != 1 || left[0].ID != other.Process.Pid {
		t.Errorf("the other process is not among %v, error %v", left, err)
	}
}

func TestTheCallerIsNotFound(t *testing.T) {
	all := procs.MountPoint(func(path string) bool { return path == "/proc" })
	found, err := procs.Find(procs.Any(procs.Variable("NONE=1"), all))
	if err != nil || slices.ContainsFunc(found, func(p procs.Process) bool { return p.ID == os.Getpid() }) {
		t.Errorf("%v, error %v", found, err)
	}
	if ids, err := procs.IDs(); err != nil || !slices.Contains(ids, os.Getpid()) {
		t.Errorf("%v, error %v", ids, err)
	}
}
