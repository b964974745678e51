package ansible

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// starts is a run whose ansible-playbook writes its process id to a file, one for each start.
func starts(t *testing.T) (r *run, pids func() []string) {
	t.Helper()
	const playbook = "- hosts: \"{{ reconfigure_changed }}\"\n  gather_facts: false\n  tasks:\n" +
		"    - {ansible.builtin.command: \"true\", tags: last}\n"
	r = newRun(t, playbook)
	for _, name := range []string{"compute.yml", "attached.yml"} {
		write(t, filepath.Join(r.Dir, "ansible", name), playbook)
	}
	write(t, givenFile(r.cluster.Settings.StateDir), "{}")
	started := filepath.Join(r.Dir, "started")
	r.Binary = filepath.Join(r.Dir, "ansible-playbook")
	write(t, r.Binary, "#!/bin/sh\necho $$ >>"+started+"\nexec ansible-playbook \"$@\"\n")
	if err := os.Chmod(r.Binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return r, func() []string {
		text, _ := os.ReadFile(started)
		return strings.Fields(string(text))
	}
}

// prepared calls Prepare, and returns when Ansible waits for its variables. end ends the preparation, and checks that
// Prepare returns and leaves nothing.
func (r *run) prepared(t *testing.T, pids func() []string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		r.Prepare(ctx, r.cluster)
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if pid := pids(); len(pid) > 0 {
			at, _ := os.ReadFile(filepath.Join("/proc", pid[0], "wchan")) // proc_pid_wchan(5)
			if string(at) == "wait_for_partner" {
				break // fs/pipe.c of Linux: it opens a pipe that nobody has opened for writing
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no Ansible waits for its variables")
		}
	}
	return func() {
		t.Helper()
		cancel()
		select {
		case <-returned:
		case <-time.After(time.Minute):
			t.Error("Prepare does not return")
		}
		left, err := filepath.Glob(filepath.Join(r.cluster.Settings.StateDir, "ansible", scratchPrefix+"*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	}
}

func (r *run) wantConfigured(t *testing.T, extent reconfigure.Extent) {
	t.Helper()
	if failures, err := r.configureAsFarAs(t.Context(), extent); err != nil || len(failures) > 0 {
		t.Fatalf("failures %v, error %v\n%s", failures, err, r.log)
	}
	if got := strings.Join(r.done, " "); got != "node01: <nil>" {
		t.Errorf("results %s", got)
	}
}

func TestARunTakesTheAnsibleThatWaits(t *testing.T) {
	r, pids := starts(t)
	end := r.prepared(t, pids)
	r.wantConfigured(t, reconfigure.Extent{Changed: nodeset.Of("node01")})
	end()
	if n := len(pids()); n != 1 {
		t.Errorf("Ansible was started %d times\n%s", n, r.log)
	}
}

func TestAnotherRunStartsItsOwnAnsible(t *testing.T) {
	for name, tc := range map[string]struct {
		control *reconfigure.ExistingControl
		extent  reconfigure.Extent
	}{
		"with another playbook": {extent: reconfigure.Extent{Changed: nodeset.Of("node01"), Addresses: true}},
		"for some of the hosts": {&reconfigure.ExistingControl{}, reconfigure.Extent{Changed: nodeset.Of("node01"),
			Addresses: true, Apart: nodeset.Of("node03")}},
	} {
		t.Run(name, func(t *testing.T) {
			r, pids := starts(t)
			r.cluster.Control.Existing = tc.control
			end := r.prepared(t, pids)
			r.wantConfigured(t, tc.extent)
			end()
			if n := len(pids()); n != 2 {
				t.Errorf("Ansible was started %d times\n%s", n, r.log)
			}
		})
	}
}

func TestAnAnsibleThatWaitsInVainLeavesNothing(t *testing.T) {
	r, pids := starts(t)
	r.prepared(t, pids)()
	r.wantConfigured(t, reconfigure.Extent{Changed: nodeset.Of("node01")})
	if n := len(pids()); n != 2 {
		t.Errorf("Ansible was started %d times\n%s", n, r.log)
	}
}

func TestOneAnsibleWaits(t *testing.T) {
	r, pids := starts(t)
	end := r.prepared(t, pids)
	r.Prepare(t.Context(), r.cluster) // returns at once
	end()
	if n := len(pids()); n != 1 {
		t.Errorf("Ansible was started %d times", n)
	}
}

func TestAKilledAnsibleIsReplaced(t *testing.T) {
	r, pids := starts(t)
	end := r.prepared(t, pids)
	if err := syscall.Kill(awaitPID(filepath.Join(r.Dir, "started")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end()
	r.wantConfigured(t, reconfigure.Extent{Changed: nodeset.Of("node01")})
}

// A run that takes the process and then cannot begin ends it, too.
func TestARunThatCannotBeginEndsTheAnsibleThatItTook(t *testing.T) {
	r, pids := starts(t)
	end := r.prepared(t, pids)
	waits, err := filepath.Glob(filepath.Join(r.cluster.Settings.StateDir, "ansible", scratchPrefix+"*"))
	if err != nil || len(waits) != 1 {
		t.Fatalf("%v, %v", waits, err)
	}
	if err := os.Mkdir(filepath.Join(waits[0], "vars.json"), 0o755); err != nil { // it cannot be written
		t.Fatal(err)
	}
	if _, err := r.configureAsFarAs(t.Context(), reconfigure.Extent{Changed: nodeset.Of("node01")}); err == nil {
		t.Error("no error")
	}
	pid := awaitPID(filepath.Join(r.Dir, "started"))
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("Ansible still runs: %v", err)
	}
	end()
}

// A run that takes the process ends it with its own context.
func TestARunEndsTheAnsibleThatItTook(t *testing.T) {
	r, pids := starts(t)
	write(t, filepath.Join(r.Dir, "ansible", "compute.yml"), `
- hosts: node01
  gather_facts: false
  tasks:
    - ansible.builtin.shell: echo $$ > {{ playbook_dir }}/../pid; exec sleep 1000
`)
	end := r.prepared(t, pids)
	ctx, cancel := context.WithCancel(t.Context())
	task := make(chan int, 1)
	go func() {
		defer cancel()
		task <- awaitPID(filepath.Join(r.Dir, "pid"))
	}()
	_, err := r.Configure(ctx, r.cluster, r.instances, reconfigure.Extent{Changed: nodeset.Of("node01")},
		func(string, string) {}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := syscall.Kill(<-task, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process of the task still runs: %v", err)
	}
	end()
}

// TestThePlaybookIsThatOfTheExtent checks which playbook a run has. The file is what the compute nodes get.
func TestThePlaybookIsThatOfTheExtent(t *testing.T) {
	own := testCluster()
	own.Settings.StateDir = t.TempDir()
	given := givenFile(own.Settings.StateDir)
	nodes := reconfigure.Extent{Changed: nodeset.Of("node01")}
	want := func(when, name string, c reconfigure.Cluster, extent reconfigure.Extent) {
		t.Helper()
		if got := playbookFor(c, extent); got != name {
			t.Errorf("%s: %s, not %s", when, got, name)
		}
	}
	want("without the file", "site.yml", own, nodes)
	write(t, given, "{}")
	want("with the file", "compute.yml", own, nodes)
	want("addresses", "site.yml", own, reconfigure.Extent{Changed: nodes.Changed, Addresses: true})
	want("everywhere", "site.yml", own, reconfigure.Extent{Changed: nodes.Changed, Everywhere: true})
	want("the control node", "site.yml", own, reconfigure.Extent{Changed: nodeset.Of("ctl", "node01")})
	several, attached := own, own
	several.Settings.Journal = "postgres://"
	want("several control hosts", "site.yml", several, nodes)
	attached.Control.Existing = &reconfigure.ExistingControl{}
	want("attached", "attached.yml", attached, nodes)
	write(t, given+".doubt", "")
	want("slurmctld may have been stopped", "site.yml", own, nodes)
}
