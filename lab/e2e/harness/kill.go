package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// Victims are the processes that a test kills.
type Victims string

// The lab's workers with all processes that they started, such as Terraform and Ansible; the workers alone; and their
// Terraform alone, whose providers end by themselves.
const (
	WorkersAndChildren Victims = "the worker with its children"
	Workers            Victims = "the worker"
	Terraforms         Victims = "Terraform"
)

// KillWorkers kills all workers of the lab and their descendants, such as Terraform and Ansible, at once by SIGKILL,
// and returns when they are gone.
func (l *Lab) KillWorkers(t *testing.T) {
	t.Helper()
	l.mustKill(t, WorkersAndChildren)
}

// KillWorkersAlone does the same with the workers alone: the programs that they started keep running.
func (l *Lab) KillWorkersAlone(t *testing.T) {
	t.Helper()
	l.mustKill(t, Workers)
}

func (l *Lab) mustKill(t *testing.T, v Victims) {
	t.Helper()
	if !l.Kill(t, v) {
		t.Error("there is no worker to kill: the test proves nothing")
	}
}

// Kill kills processes at once by SIGKILL, and returns when they are gone. It reports whether there were any.
func (l *Lab) Kill(t *testing.T, v Victims) bool {
	t.Helper()
	if v != Terraforms {
		signal(l.workers(t), syscall.SIGSTOP) // stopped, they start no processes during the search
	}
	all := l.victims(t, v)
	signal(all, syscall.SIGKILL)
	l.Eventually(t, time.Minute, func() (bool, string) {
		return !slices.ContainsFunc(all, lives), "killed processes still have their files and locks"
	})
	return len(all) > 0
}

// Runs reports whether such processes run.
func (l *Lab) Runs(t *testing.T, v Victims) bool {
	t.Helper()
	return len(l.victims(t, v)) > 0
}

func (l *Lab) victims(t *testing.T, v Victims) []int {
	t.Helper()
	workers := l.workers(t)
	switch v {
	case WorkersAndChildren:
		return append(descendants(t, workers), workers...)
	case Terraforms:
		return slices.DeleteFunc(descendants(t, workers), func(pid int) bool {
			name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
			return err != nil || strings.TrimSpace(string(name)) != "terraform"
		})
	}
	return workers
}

// StartWorker starts a worker, as an administrator does after a crash. It stays while requests wait for jobs, then ends
// by itself. It ends at once if another worker is active.
func (l *Lab) StartWorker(t *testing.T) {
	t.Helper()
	worker := l.Reconfigure(t.Context(), "worker")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Wait() }) // it may have been killed
}

// lives reports whether a process has not ended. A zombie has ended when its last thread has.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	threads, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	state := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return len(state) > 0 && state[0] != "Z" || len(threads) > 1
}

// workers returns the processes of the lab's workers.
func (l *Lab) workers(t *testing.T) []int {
	t.Helper()
	var found []int
	processes, err := procs.Find(func(int) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if i := slices.Index(p.Args, l.Site); i >= 0 && i+1 < len(p.Args) && p.Args[i+1] == "worker" {
			found = append(found, p.ID)
		}
	}
	return found
}

// descendants returns the children of these processes, their children, and so on.
func descendants(t *testing.T, of []int) []int {
	t.Helper()
	children := map[int][]int{}
	all, err := procs.IDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		// The fields are: pid (name) state parent …; the name may contain any character.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for next := of; len(next) > 0; {
		var born []int
		for _, pid := range next {
			born = append(born, children[pid]...)
		}
		found, next = append(found, born...), born
	}
	return found
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}
