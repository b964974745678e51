package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// adoptOrphans makes this process the parent of processes whose own parent ends (prctl(2), PR_SET_CHILD_SUBREAPER):
// workers outlive their callers, and only a parent can read the CPU time of a process and its children.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// orphans are the names of processes that outlive their parents: workers, and Ansible's connections.
var orphans = []string{"reconfigure", "ssh"}

// usage is the CPU time of processes.
type usage struct {
	own time.Duration // of reconfigure
	all time.Duration // of reconfigure and all processes that it started
}

// taken returns the CPU time of the orphans that have ended since the last call. While it runs, no other process may
// wait for a process with one of these names.
func taken() usage {
	var sum usage
	pids, _ := procs.IDs() // without the children nothing would be counted
	for _, pid := range pids {
		s, ok := statusOf(pid)
		if !ok || s.parent != os.Getpid() || s.state != "Z" || !slices.Contains(orphans, s.name) {
			continue
		}
		var all syscall.Rusage
		if _, err := syscall.Wait4(pid, nil, 0, &all); err != nil {
			continue
		}
		sum.all += time.Duration(all.Utime.Nano() + all.Stime.Nano())
		if s.name == orphans[0] {
			sum.own += s.own
		}
	}
	return sum
}

// status is the kernel's status of a process (proc_pid_stat(5)).
type status struct {
	name, state string
	parent      int
	own         time.Duration // CPU
	cpu         time.Duration // its own and that of its children that have ended
}

// ticks is the number of the kernel's ticks in a second, on every Linux that Go supports (sysconf(3), _SC_CLK_TCK).
const ticks = 100

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
	for i, field := range fields[11:15] {
		n, _ := strconv.Atoi(field)
		took := time.Duration(n) * time.Second / ticks
		if s.cpu += took; i < 2 {
			s.own += took
		}
	}
	return s, true
}

// interrupt asks a process to end, as Ctrl-C does.
func interrupt(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) }
