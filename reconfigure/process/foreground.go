package process

import (
	"fmt"
	"os/exec"
)

// Foreground runs a program of the user, such as a pager, until it ends, and returns its exit code; -1: a signal ended
// it. It is in the process group of this process, so that it may read from the terminal, and Ctrl-C reaches both. The
// error means that it could not be started.
func Foreground(c Cmd) (code int, err error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Path, err)
	}
	// An error of the copy of the input means that the program ended before it had read all.
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), nil
}
