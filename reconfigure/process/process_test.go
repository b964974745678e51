package process_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func shell(script string, args ...string) process.Cmd {
	return process.Cmd{
		Path: "/bin/sh",
		Args: append([]string{"-c", script, "sh"}, args...),
		Env:  []string{"PATH=/usr/bin:/bin"},
	}
}

func TestBuildMakesAProcessGroupWithoutInheritedEnvironment(t *testing.T) {
	cmd := process.Build(t.Context(), process.Cmd{Path: "/bin/true", Args: []string{"a", "b"}, Dir: "/tmp"})
	if diff := cmp.Diff([]string{"/bin/true", "a", "b"}, cmd.Args); diff != "" {
		t.Error(diff)
	}
	if cmd.Dir != "/tmp" || cmd.Env == nil || len(cmd.Env) != 0 || cmd.Stdin != nil || !cmd.SysProcAttr.Setpgid {
		t.Errorf("dir %q, env %q, stdin %v, attributes %+v", cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr)
	}
}

func TestProgramGetsItsEnvironmentOnlyAndNoInput(t *testing.T) {
	t.Setenv("PROCESS_TEST_LEAK", "1")
	var out bytes.Buffer
	cmd := process.Cmd{Path: "/usr/bin/env", Stdout: &out}
	if err := process.Run(t.Context(), cmd); err != nil || out.Len() != 0 {
		t.Errorf("environment %q, error %v", out.String(), err)
	}
	cmd = shell("readlink /proc/self/fd/0; pgid=$(cut -d' ' -f5 /proc/$$/stat); test $pgid = $$")
	cmd.Stdout = &out
	if err := process.Run(t.Context(), cmd); err != nil || out.String() != "/dev/null\n" {
		t.Errorf("input %q, error %v", out.String(), err)
	}
}

func TestProgramGetsItsInput(t *testing.T) {
	var out bytes.Buffer
	cmd := process.Cmd{Path: "/bin/cat", Stdin: strings.NewReader("hello"), Stdout: &out}
	if err := process.Run(t.Context(), cmd); err != nil || out.String() != "hello" {
		t.Errorf("output %q, error %v", out.String(), err)
	}
}

func TestErrorHasExitStatusOrSignal(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   process.Error
		text   string
	}{
		"status": {"echo no such node >&2; exit 3", process.Error{Code: 3, Stderr: "no such node\n"},
			"/bin/sh: exit status 3: no such node"},
		"signal": {"kill -9 $$", process.Error{Code: -1, Signal: syscall.SIGKILL}, "/bin/sh: ended by signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen bytes.Buffer
			cmd := shell(test.script)
			cmd.Stderr = &seen
			err := process.Run(t.Context(), cmd)
			got, ok := errors.AsType[*process.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			test.want.Path = "/bin/sh"
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
			if err.Error() != test.text || seen.String() != test.want.Stderr {
				t.Errorf("text %q, stderr %q", err, seen.String())
			}
			if _, ok := errors.AsType[interface {
				error
				ExitCode() int
			}](err); ok {
				t.Error("a command line library would exit with the program's exit code")
			}
		})
	}
}

func TestErrorKeepsTheEndOfStderr(t *testing.T) {
	err := process.Run(t.Context(), shell("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1"))
	got, ok := errors.AsType[*process.Error](err)
	if !ok || len(got.Stderr) != 4096 || !strings.HasSuffix(got.Stderr, "line 1999\n") {
		t.Errorf("error %v", err)
	}
}

func TestMissingProgram(t *testing.T) {
	err := process.Run(t.Context(), process.Cmd{Path: "/nowhere/at/all"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := process.Run(t.Context(), process.Cmd{Path: "reconfigure-no-such-program"}); !errors.Is(
		err,
		exec.ErrNotFound,
	) {
		t.Errorf("error %v", err)
	}
}

func TestCancelledBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := process.Run(ctx, shell("exit 0")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// interrupted runs a script, cancels it once it has written a file, and returns the time from cancelling to the end,
// and the error.
func interrupted(t *testing.T, cmd process.Cmd, file string) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- process.Run(ctx, cmd) }()
	eventually(t, "the program is running", func() bool { _, err := os.Stat(file); return err == nil })
	begun := time.Now()
	cancel(errors.New("the caller is gone"))
	err := <-done
	return time.Since(begun), err
}

func TestCancelInterruptsAndWaitsForTheProgramToCleanUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	var out bytes.Buffer
	cmd := shell(`trap 'echo tidy; exit 0' INT; : > "$1"; while :; do sleep 0.01; done`, file)
	cmd.Stdout, cmd.Grace = &out, time.Minute
	took, err := interrupted(t, cmd, file)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the caller is gone") {
		t.Errorf("error %v", err)
	}
	if out.String() != "tidy\n" || took >= cmd.Grace {
		t.Errorf("output %q after %v", out.String(), took)
	}
}

func TestCancelKillsAProgramThatIgnoresTheInterruptAndItsChildren(t *testing.T) {
	file := filepath.Join(t.TempDir(), "grandchild")
	cmd := shell(`trap '' INT; sleep 1000 & echo $! > "$1.new"; mv "$1.new" "$1"; wait`, file)
	cmd.Grace, cmd.Stdout = 200*time.Millisecond, new(bytes.Buffer)
	took, err := interrupted(t, cmd, file)
	grandchild := pidFrom(t, file)
	got, ok := errors.AsType[*process.Error](err)
	if !ok || got.Signal != syscall.SIGKILL || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took < cmd.Grace {
		t.Errorf("ended after %v", took)
	}
	eventually(t, "the grandchild is gone", func() bool { return !running(grandchild) })
}

func TestCancelKillsChildrenThatOutliveTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "grandchild")
	// a shell's background child ignores SIGINT
	cmd := shell(
		`sleep 1000 & echo $! > "$1.new"; mv "$1.new" "$1"; trap 'exit 0' INT; while :; do sleep 0.01; done`,
		file,
	)
	cmd.Grace = 300 * time.Millisecond
	_, err := interrupted(t, cmd, file)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	grandchild := pidFrom(t, file)
	eventually(t, "the grandchild is gone", func() bool { return !running(grandchild) })
}

func TestRunDoesNotWaitForADaemonThatKeepsTheOutputOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "daemon")
	var out bytes.Buffer
	cmd := shell(`setsid sleep 1000 & echo $! > "$1.new"; mv "$1.new" "$1"; echo done`, file)
	cmd.Stdout = &out
	err := process.Run(t.Context(), cmd)
	pidFrom(t, file)
	if err != nil || out.String() != "done\n" {
		t.Errorf("output %q, error %v", out.String(), err)
	}
}
