// Package procs finds processes of this computer, of any parent and session, by their data in /proc (proc(5)). Tests
// and labs use it to end the processes that they started, and to check that none is left.
package procs

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

// Process is a process that was found. It may have ended meanwhile.
type Process struct {
	ID int
	// Args is its command line, which begins with the program.
	Args []string
}

func (p Process) String() string { return fmt.Sprintf("%d: %s", p.ID, strings.Join(p.Args, " ")) }

// Mark reports whether a process is one of those to find.
type Mark func(id int) bool

// Environment marks the processes that were started with an entry NAME=VALUE for which has returns true. Processes
// inherit it from their parents.
func Environment(has func(entry string) bool) Mark {
	return func(id int) bool { return slices.ContainsFunc(strings.Split(read(id, "environ"), "\x00"), has) }
}

// Variable marks the processes that were started with the given entry NAME=VALUE.
func Variable(entry string) Mark { return Environment(func(e string) bool { return e == entry }) }

// Mount marks the processes with a mount in their mount namespace for which has returns true, given its line in
// proc_pid_mounts(5).
func Mount(has func(line string) bool) Mark {
	return func(id int) bool { return slices.ContainsFunc(strings.Split(read(id, "mounts"), "\n"), has) }
}

// MountPoint is [Mount] for a mount with this path.
func MountPoint(has func(path string) bool) Mark {
	return Mount(func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 1 && has(fields[1])
	})
}

// Any marks the processes that at least one of the marks marks.
func Any(marks ...Mark) Mark {
	return func(id int) bool { return slices.ContainsFunc(marks, func(m Mark) bool { return m(id) }) }
}

// IDs returns the ids of all processes.
func IDs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Find returns the marked processes except the calling one. It does not find zombies, which have neither an environment
// nor mounts.
func Find(marked Mark) ([]Process, error) {
	ids, err := IDs()
	var found []Process
	for _, id := range ids {
		if id != os.Getpid() && marked(id) {
			args := strings.Split(strings.TrimSuffix(read(id, "cmdline"), "\x00"), "\x00")
			found = append(found, Process{id, args})
		}
	}
	return found, err
}

// End kills the marked processes, and those that they start meanwhile, and waits until they have ended. It returns the
// killed processes. If some remain after a minute, it returns an error.
func End(marked Mark) (ended []Process, err error) {
	const tries, pause = 3000, 20 * time.Millisecond
	var left []Process
	for range tries {
		if left, err = Find(marked); err != nil || len(left) == 0 {
			return ended, err
		}
		for _, p := range left {
			_ = syscall.Kill(p.ID, syscall.SIGKILL) // it may have ended
			if !slices.ContainsFunc(ended, func(e Process) bool { return e.ID == p.ID }) {
				ended = append(ended, p)
			}
		}
		time.Sleep(pause)
	}
	return ended, fmt.Errorf("processes do not end: %v", left)
}

// read returns a file of a process; "" if the process has ended.
func read(id int, name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), name))
	return string(text)
}
