package process

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cleaned names the variable with which CleanSignals tells itself, across its exec, that it has been here. Its value is our process id, which an exec keeps: one that
// somebody else left in the environment means nothing.
const cleaned = "RECONFIGURE_SIGNALS_CLEANED"

// CleanSignals frees the process from blocked signals, and is the first thing that main does. slurmctld starts its programs with a dozen signals blocked, and
// children inherit that: Go unblocks for itself those that it handles, but with SIGALRM blocked no timeout in a program that we start would ever end. Since each of the
// threads that there are by now has a mask of its own, the one clean way is to empty that of this thread and have it start the program afresh, once, with
// the same arguments and environment. It returns in the process that is clean, or with an error where it could not be done.
//
// Descriptors 0, 1 and 2, which slurmctld closes, need no care: Go's runtime opens /dev/null on them before main.
func CleanSignals() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask); err != nil {
		return fmt.Errorf("read the signal mask: %w", err)
	}
	self := strconv.Itoa(os.Getpid())
	before := os.Getenv(cleaned) == self
	if err := os.Unsetenv(cleaned); err != nil {
		return err
	}
	switch {
	case mask == unix.Sigset_t{}:
		return nil
	case before:
		return fmt.Errorf("signals are still blocked after a start with none blocked: %x", mask.Val[0])
	}
	return restart(self)
}

func restart(self string) error {
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return fmt.Errorf("empty the signal mask: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again with no signal blocked: %w", err)
	}
	environment := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, cleaned+"=") })
	err = syscall.Exec(program, os.Args, append(environment, cleaned+"="+self))
	return fmt.Errorf("start %s again with no signal blocked: %w", program, err)
}
