package process

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Detach starts a program that outlives the caller, and returns when it has started. The program gets its own
// session, so that no hang-up, no Ctrl-C and no signal to the caller's process group reaches it. It inherits no
// descriptor, so that an SSH server or a shell that waits for the end of the caller's output does not wait for the
// program. Stdout and Stderr must be *os.File or nil, Stdin nil and Grace zero; else it returns an error.
//
// With KillUserProcesses=yes (logind.conf(5)), systemd-logind kills the program when the user's login session ends.
func Detach(c Cmd) error {
	if c.Stdin != nil || c.Grace != 0 || !fileOrNone(c.Stdout) || !fileOrNone(c.Stderr) {
		return errors.New("a detached program has no input and no grace, and writes to files only")
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{}, c.Env...)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Go's own descriptors close on exec, but not those that were inherited: the lock of a script, for example, would
	// stay locked while the program runs. Kernels before 5.11 have no CLOSE_RANGE_CLOEXEC; the descriptors stay open
	// there.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Path, err)
	}
	go func() { _ = cmd.Wait() }() // leaves no zombie if the program ends first
	return nil
}

func fileOrNone(w io.Writer) bool {
	_, file := w.(*os.File)
	return file || w == nil
}
