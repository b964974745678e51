package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ForbidCores prevents core dumps of this process and of the programs that it starts, since their memory has
// passwords. Call it at the beginning of main. No later call can raise the limit again, except by root.
//
// The limit is one byte. That is less than the smallest core file, and, unlike a limit of 0, it holds where cores are
// piped to a program (core(5), "Piping core dumps to a program"; Linux, fs/coredump.c). If the limit was 0 before and
// cannot be raised, it stays 0.
func ForbidCores() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	if err == nil {
		least := min(limit.Max, 1)
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: least, Max: least})
	}
	if err != nil {
		return fmt.Errorf("limit core files: %w", err)
	}
	return nil
}
