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

// Detach starts a program that lives on by itself: in a session of its own, which no hang-up, no Ctrl-C and no signal to the caller's group reaches, and
// without any descriptor of the caller's, so that nobody who waits for the end of our output (an SSH server, a shell's pipe) waits for it. Output goes to
// *os.File or nowhere; input and grace make no sense here and are refused. It returns when the program has been started.
//
// One thing reaches it still: systemd-logind ends what a session has started, sessions or not, where an administrator set KillUserProcesses=yes (logind.conf(5)).
func Detach(c Cmd) error {
	if c.Stdin != nil || c.Grace != 0 || !fileOrNone(c.Stdout) || !fileOrNone(c.Stderr) {
		return errors.New("a detached program has no input and no grace, and writes to files only")
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{}, c.Env...)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Go's own descriptors close on exec, but not those that our caller left open for us: a script's lock, say, would be held for as long as the program
	// lives. Kernels before 5.11 cannot do it; there they stay open, as everywhere.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Path, err)
	}
	go func() { _ = cmd.Wait() }() // if it ends before us, it must not stay a zombie; what became of it is not our business
	return nil
}

func fileOrNone(w io.Writer) bool {
	_, file := w.(*os.File)
	return file || w == nil
}
