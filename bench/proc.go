package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of processes whose own parent ends (prctl(2), PR_SET_CHILD_SUBREAPER):
// workers go on after their callers end, and only a parent can read the CPU time of a process and its children.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// orphans are the names of processes that go on after their parents end: workers, and the connections of Ansible.
var orphans = []string{"reconfigure", "ssh"}

// taken returns the CPU time of the orphans that have ended since the last call, with that of all of their children. No
// process with one of these names may run that another process waits for.
func taken() time.Duration {
	var sum time.Duration
	for _, pid := range pids() {
		s, ok := statusOf(pid)
		if !ok || s.parent != os.Getpid() || s.state != "Z" || !slices.Contains(orphans, s.name) {
			continue
		}
		var usage syscall.Rusage
		if _, err := syscall.Wait4(pid, nil, 0, &usage); err == nil {
			sum += cpu(usage)
		}
	}
	return sum
}

// cpu returns the CPU time of a process and its children.
func cpu(u syscall.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

// status is the kernel's status of a process (proc_pid_stat(5)).
type status struct {
	name, state string
	parent      int
	cpu         time.Duration // its own and that of its children that have ended
}

func statusOf(pid int) (status, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return status{}, false
	}
	begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text)[end+1:])
	if begin < 0 || end < begin || len(fields) < 15 {
		return status{}, false
	}
	s := status{name: string(text)[begin+1 : end], state: fields[0]}
	s.parent, _ = strconv.Atoi(fields[1])
	const ticks = 100 // a second, on every Linux that Go knows (sysconf(3), _SC_CLK_TCK)
	for _, field := range fields[11:15] {
		n, _ := strconv.Atoi(field)
		s.cpu += time.Duration(n) * time.Second / ticks
	}
	return s, true
}

func pids() []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// marked returns the processes with an entry in their environment.
func marked(entry string) []int {
	var all []int
	for _, pid := range pids() {
		environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")) // one that has ended has none
		if pid != os.Getpid() && slices.Contains(strings.Split(string(environ), "\x00"), entry) {
			all = append(all, pid)
		}
	}
	return all
}

// endProcesses kills the processes with an entry in their environment.
func endProcesses(entry string) error {
	for range 100 {
		left := marked(entry)
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended since
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("processes with %s do not end", entry)
}

// interrupt asks a process to end, as Ctrl-C does.
func interrupt(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }
