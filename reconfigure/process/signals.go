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

// cleaned names the variable that CleanSignals sets before its exec, to exec only once. Its value is the process id,
// which an exec keeps: a value that another process left in the environment has no effect.
const cleaned = "RECONFIGURE_SIGNALS_CLEANED"

// CleanSignals unblocks all signals. It must be the first call in main. slurmctld starts its programs with twelve
// signals blocked, and children inherit the mask. Go unblocks the signals that it handles itself, but with SIGALRM
// blocked the timeouts of programs that we start would not work. Each thread has a mask of its own, so CleanSignals
// empties the mask of this thread and executes the program again, once, with the same arguments and environment. It
// returns nil if no signal is blocked, else an error.
//
// Descriptors 0, 1 and 2, which slurmctld closes, need no attention: Go's runtime opens /dev/null on them before main.
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
	environment := slices.DeleteFunc(
		os.Environ(),
		func(entry string) bool { return strings.HasPrefix(entry, cleaned+"=") },
	)
	err = syscall.Exec(program, os.Args, append(environment, cleaned+"="+self))
	return fmt.Errorf("start %s again with no signal blocked: %w", program, err)
}
