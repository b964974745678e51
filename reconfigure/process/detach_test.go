package process_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func TestDetachedProgramOutlivesTheCallersGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := play(t, "caller", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	detached := pidFrom(t, file)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGKILL} {
		if err := syscall.Kill(-cmd.Process.Pid, s); err != nil && s == syscall.SIGHUP {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the caller was not killed")
	}
	if session, err := unix.Getsid(detached); err != nil || session != detached || !running(detached) {
		t.Errorf("session %d of process %d, error %v", session, detached, err)
	}
}

func TestDetachedProgramInheritsNoDescriptor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd := play(t, "caller", file, "and go")
	cmd.Stdout, cmd.ExtraFiles = ours, []*os.File{ours}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	detached := pidFrom(t, file)
	if err := theirs.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(theirs); err != nil {
		t.Errorf("the caller's output stays open: %v", err)
	}
	if !running(detached) {
		t.Error("the detached program is gone")
	}
}

func TestDetachedProgramThatEndsIsNoZombie(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := shell("echo $$; echo oops >&2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := process.Detach(cmd); err != nil {
		t.Fatal(err)
	}
	var text []byte
	eventually(t, "its log", func() bool {
		text, err = os.ReadFile(log.Name())
		return err != nil || bytes.HasSuffix(text, []byte("oops\n"))
	})
	pid, _, _ := strings.Cut(string(text), "\n")
	eventually(t, "no trace of it", func() bool { _, err := os.Stat("/proc/" + pid); return os.IsNotExist(err) })
}

func TestDetachRejectsInputPipesAndGrace(t *testing.T) {
	for name, cmd := range map[string]process.Cmd{
		"input":  {Path: "/bin/true", Stdin: strings.NewReader("")},
		"buffer": {Path: "/bin/true", Stdout: io.Discard},
		"grace":  {Path: "/bin/true", Grace: time.Second},
	} {
		if err := process.Detach(cmd); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
