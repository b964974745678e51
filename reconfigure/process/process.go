// Package process is the only place of the project that starts programs.
//
// A program gets a process group of its own, so that a cancelled context ends it together with everything that it has started, and so that a signal to the
// caller's group (Ctrl-C on a terminal) does not reach it past us. It gets the environment that is written down for it and nothing else, and /dev/null where
// no input is given: nothing that it does depends on who called us. Build makes a command and Run runs it, so that tests can look at the command alone.
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

// Cmd says what to start.
type Cmd struct {
	Path   string   // with a slash, or a name that is looked up on our own PATH
	Args   []string // without the program's name
	Dir    string   // empty: the current one
	Env    []string // the complete environment, KEY=value; empty: none at all
	Stdin  io.Reader
	Stdout io.Writer // nil: /dev/null
	Stderr io.Writer // nil: /dev/null; never the same writer as Stdout unless it may be used by two goroutines
	// Grace is the time between the SIGINT and the SIGKILL that a cancelled context causes; zero: none.
	Grace time.Duration
}

const (
	// drain is how long output is waited for after the program itself has ended: something that it left behind, an SSH master for instance, may hold the
	// other end of a pipe for ever.
	drain = 2 * time.Second
	// look is the pause between two looks at a group that was interrupted.
	look = 10 * time.Millisecond
)

// Build makes the command. When ctx ends, the whole process group gets SIGINT, and what is left of it after the grace SIGKILL; Wait returns when the group is
// gone, and never later than the grace and two seconds.
func Build(ctx context.Context, c Cmd) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{}, c.Env...) // never nil, which would mean our own
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return end(cmd.Process.Pid, c.Grace) }
	cmd.WaitDelay = drain
	return cmd
}

// end interrupts a process group and waits until it is empty; after the grace it kills what is left. No stranger can be hit: the kernel gives a group's number
// to nobody while a process is in it, and an empty group is seen long before the numbers have come round.
func end(group int, grace time.Duration) error {
	if err := syscall.Kill(-group, syscall.SIGINT); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(look) {
		if err := syscall.Kill(-group, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
	}
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", group, err)
	}
	return nil
}

// Run runs a program to its end. A program that does not end well is an *Error; one that cannot be started is another error, which says why. When ctx
// ended, errors.Is finds its error, whatever the program made of the interrupt.
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
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		err = nil // it has ended well, and what it has left behind is not waited for
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
	// An *exec.ExitError is not wrapped: command line libraries take its code for ours and exit with it.
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

// Error tells how a program ended that did not end well.
type Error struct {
	Path   string
	Code   int            // exit status; -1 if a signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
	Stderr string         // the end of what it wrote there
	Err    error          // the context's error if that was the reason, or what went wrong with its input and output; nil otherwise
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

// Unwrap is the context's error, if that was the reason.
func (e *Error) Unwrap() error { return e.Err }

// tail keeps the end of what is written to it, for errors that people read.
type tail struct{ end []byte }

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailSize; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.end), "") }
