// Package process starts external programs. No other package of the product does.
//
// A program gets its own process group, so that a cancelled context ends it together with its children, and so that a
// signal to the caller's group (Ctrl-C on a terminal) does not reach it. It gets only the given environment, and
// /dev/null if no input is given, so that it does not depend on the caller's environment. Build makes a command and
// Run runs it, so that tests can check the command alone.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Cmd is a program to start.
type Cmd struct {
	Path   string    // with a slash, or a name to look up in the caller's PATH
	Args   []string  // without the program's name
	Dir    string    // working directory; empty: the current one
	Env    []string  // the complete environment, KEY=value; empty: no variables
	Stdin  io.Reader // nil: /dev/null
	Stdout io.Writer // nil: /dev/null
	Stderr io.Writer // nil: /dev/null; may be the same as Stdout only if it is safe for concurrent use
	// Grace is the time from SIGINT to SIGKILL after the context is cancelled; zero: SIGKILL follows at once. A program
	// with a grace period is ended in the same way when the caller of Run is killed.
	Grace time.Duration
}

const (
	// drain is the time limit for reading output after the program has ended: a background process, an SSH master for
	// example, may keep a pipe open.
	drain = 2 * time.Second
	// poll is the interval between checks whether an interrupted process group is empty.
	poll = 10 * time.Millisecond
)

// Build makes the command. When ctx ends, the whole process group gets SIGINT, and after the grace period the rest of
// it gets SIGKILL. Wait returns when the group is empty, and at the latest two seconds after the grace period.
func Build(ctx context.Context, c Cmd) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{}, c.Env...) // never nil, which would mean our own environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return end(cmd.Process.Pid, c.Grace) }
	cmd.WaitDelay = drain
	return cmd
}

// end interrupts a process group and waits until it is empty; after the grace period it kills what is left. It cannot
// kill another program: the kernel does not reuse the number of a group that has a process, and an empty group is
// noticed within the interval of the checks.
func end(group int, grace time.Duration) error {
	if err := syscall.Kill(-group, syscall.SIGINT); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(poll) {
		if err := syscall.Kill(-group, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
	}
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", group, err)
	}
	return nil
}

// Run runs a program until it ends. The error is an *Error if the program fails, and another one if it cannot be
// started. If ctx ended, errors.Is finds the error of ctx, for any exit status of the program.
func Run(ctx context.Context, c Cmd) error {
	last := &tail{}
	cmd := Build(ctx, c)
	cmd.Stderr = last
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(c.Stderr, last)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Path, err)
	}
	if c.Grace > 0 {
		defer leash(cmd.Process.Pid, c.Grace)()
	}
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		err = nil // the program succeeded; a background process has the output open
	}
	if err == nil {
		return nil
	}
	return failure(ctx, c.Path, cmd.ProcessState, last.String(), err)
}

func failure(ctx context.Context, path string, state *os.ProcessState, stderr string, err error) *Error {
	e := &Error{Path: path, Stderr: stderr, Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	// An *exec.ExitError is not wrapped: command line libraries would exit with its code.
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		e.Err = ctx.Err()
		if cause := context.Cause(ctx); !errors.Is(cause, e.Err) {
			e.Err = fmt.Errorf("%w: %w", e.Err, cause)
		}
	case !exited:
		e.Err = err
	}
	return e
}

// Error is the failure of a program that was started.
type Error struct {
	Path   string
	Code   int            // exit status; -1 if a signal ended the program
	Signal syscall.Signal // the signal that ended the program, or 0
	Stderr string         // the last 4 KiB of its standard error
	Err    error          // the error of the context, or of copying input and output; nil otherwise
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	case e.Signal != 0:
		fmt.Fprintf(&b, ": ended by signal: %v", e.Signal)
	default:
		fmt.Fprintf(&b, ": exit status %d", e.Code)
	}
	if text := strings.TrimSpace(e.Stderr); text != "" {
		fmt.Fprintf(&b, ": %s", text)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// tail is a writer that keeps the last bytes written to it.
type tail struct{ end []byte }

const tailSize = 4 << 10 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailSize; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.end), "") }
