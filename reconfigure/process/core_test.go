package process_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A program that starts with the largest limit crashes, and so does its child. Without ForbidCores there are two core
// files, which shows that the search finds them; with it there is none. If the system stores cores elsewhere, the test
// only compares the limits.
func TestACrashLeavesNoCore(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	here := !bytes.ContainsAny(pattern, "|/@")
	for name, want := range map[string]int{"allowed": 2, "forbidden": 0} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := play(t, "crasher", filepath.Join(dir, "pid"), name)
			cmd.Dir, cmd.Stderr = dir, nil // its traceback is long
			cmd.Env = append(cmd.Env, "GOTRACEBACK=crash")
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			child := pidFrom(t, filepath.Join(dir, "pid"))
			for _, pid := range []int{cmd.Process.Pid, child} {
				soft, hard := coreLimit(t, pid)
				if name == "forbidden" && (soft != "0" && soft != "1" || soft != hard) {
					t.Errorf("process %d has the limit %s, at most %s", pid, soft, hard)
				}
				if soft == "0" { // of the system
					want = 0
				}
				if err := syscall.Kill(pid, syscall.SIGABRT); err != nil {
					t.Error(err)
				}
			}
			_ = cmd.Wait() // the program crashed
			eventually(t, "the child is gone", func() bool { return !running(child) })
			if cores := coresIn(t, dir); here && len(cores) != want {
				t.Errorf("core files %v, want %d", cores, want)
			}
		})
	}
}

// coreLimit returns the soft and the hard limit of a process's core file, in bytes (proc(5), /proc/pid/limits).
func coreLimit(t *testing.T, pid int) (soft, hard string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
			limits := strings.Fields(rest)
			return limits[0], limits[1]
		}
	}
	t.Fatalf("no limit of core files in %s", text)
	return "", ""
}

// coresIn returns the ELF files below a folder.
func coresIn(t *testing.T, dir string) (cores []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.HasPrefix(text, []byte("\x7fELF")) {
			cores = append(cores, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return cores
}
