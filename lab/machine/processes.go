package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcessesWith returns the processes with a mount point in their mount namespace that marks accepts.
func ProcessesWith(marks func(mountPoint string) bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		mounts, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "mounts")) // a process that has ended has none
		if slices.ContainsFunc(strings.Split(string(mounts), "\n"), func(mount string) bool {
			fields := strings.Fields(mount)
			return len(fields) > 1 && marks(fields[1])
		}) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// EndProcessesWith kills the processes of [ProcessesWith], and those that they start meanwhile. With the last one the
// namespace ends, and its mounts.
func EndProcessesWith(marks func(mountPoint string) bool) error {
	const tries = 100
	var pids []int
	for range tries {
		var err error
		if pids, err = ProcessesWith(marks); err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("processes %d do not end", pids)
}
