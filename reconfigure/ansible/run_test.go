package ansible

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// run is a cluster directory with the shipped settings and plugins of Ansible, and a playbook of the test.
type run struct {
	*Runner
	cluster   reconfigure.Cluster
	instances map[string]reconfigure.Instance
	log       *bytes.Buffer

	lock    sync.Mutex
	watched []string
	done    []string
}

func newRun(t *testing.T, playbook string) *run {
	t.Helper()
	needs.Lab(t)
	dir := t.TempDir()
	for _, name := range []string{"ansible.cfg", "callback_plugins"} {
		if err := copyTree(filepath.Join("../../ansible", name), filepath.Join(dir, "ansible", name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "ansible", "site.yml"), playbook)
	// All hosts are this machine, except node03: no process listens on its port.
	write(t, filepath.Join(dir, "group_vars", "all.yml"), localConnection(dir))
	write(t, filepath.Join(dir, "host_vars", "node03.yml"),
		"ansible_connection: ssh\nansible_host: 127.0.0.1\nansible_port: 1\n")
	c := testCluster()
	c.Settings.StateDir = filepath.Join(dir, "state")
	log := &bytes.Buffer{}
	env := append(os.Environ(), "HOME=/nonexistent", "ANSIBLE_STDOUT_CALLBACK=no_such_callback")
	return &run{Runner: New(Config{Dir: dir, Env: env, Log: log}), cluster: c, instances: testInstances(), log: log}
}

// localConnection has the variables that make all hosts this machine. Files that an interrupted Ansible leaves behind
// are removed with the folder.
func localConnection(dir string) string {
	return "ansible_connection: local\nansible_remote_tmp: " + filepath.Join(dir, "remote") + "\n"
}

func (r *run) configure(ctx context.Context, changed ...string) (map[string]string, error) {
	return r.configureAsFarAs(ctx, reconfigure.Extent{Changed: nodeset.Of(changed...), Addresses: true})
}

func (r *run) configureAsFarAs(ctx context.Context, extent reconfigure.Extent) (map[string]string, error) {
	failures, err := r.Configure(ctx, r.cluster, r.instances, extent, func(node, message string) {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.watched = append(r.watched, node+": "+message)
	}, func(node string, _ reconfigure.Configured, err error) {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.done = append(r.done, fmt.Sprintf("%s: %v", node, err))
	})
	return texts(failures), err
}

func (r *run) saw(message string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.ContainsFunc(r.watched, func(w string) bool { return strings.HasPrefix(w, message) })
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = filepath.Join(to, strings.TrimPrefix(path, from))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o644)
	})
}

// leftovers returns the files in Ansible's folder in the state directory, which is empty after a run.
func (r *run) leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(r.cluster.Settings.StateDir, "ansible", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

const twoPlays = `
- hosts: cluster
  gather_facts: false
  tasks:
    - name: On all
      ansible.builtin.command: "true"
- hosts: "{{ groups['compute'] | intersect(reconfigure_changed | default(groups['compute'])) }}"
  gather_facts: false
  tasks:
    - name: With a secret
      ansible.builtin.shell: echo tell nobody >&2; false
      no_log: true
      when: secret is defined
    - name: On the changed ones
      ansible.builtin.shell: "{{ 'echo broken >&2; false' if inventory_hostname == 'big1' else 'true' }}"
      tags: last
`

func TestEachHostHasAResultOfItsOwn(t *testing.T) {
	r := newRun(t, twoPlays)
	got, err := r.configure(t.Context(), "node01", "big1")
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	want := map[string]string{"big1": "task \"On the changed ones\": non-zero return code\nbroken"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, message := range []string{"node01: On all", "node01: On the changed ones",
		"big1: task \"On the changed ones\"",
		"node03: does not have the latest changes: could not be reached"} {
		if !r.saw(message) {
			t.Errorf("watch did not get %q, but %q", message, r.watched)
		}
	}
	for _, message := range []string{"ctl:", "node03: On all"} {
		if r.saw(message) {
			t.Errorf("watch got %q of a node that did not change", message)
		}
	}
	if left := r.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Another operation works with node03, which does not answer.
func TestAnExcludedNodeIsNotLoggedInTo(t *testing.T) {
	r := newRun(t, `
- hosts: "{{ groups['cluster'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  tasks:
    - name: Tell of them
      ansible.builtin.debug:
        msg: "standard={{ groups['group_standard'] | sort | join(',') }} node03={{ node_addresses['node03'] }}"
      tags: last
- hosts: cluster
  gather_facts: false
  tasks:
    - name: On all
      ansible.builtin.command: "true"
`)
	got, err := r.configureAsFarAs(t.Context(), reconfigure.Extent{Changed: nodeset.Of("node01"), Addresses: true,
		Apart: nodeset.Of("node03", "node10")})
	if err != nil || len(got) > 0 {
		t.Fatalf("%v, %v\n%s", got, err, r.log)
	}
	if said := r.log.String(); !strings.Contains(said, "standard=node01,node03 node03=10.0.0.3") ||
		!strings.Contains(said, "changed: [big1]") || strings.Contains(said, "[node03]") {
		t.Errorf("Ansible printed:\n%s", said)
	}
	if r.saw("node03: ") {
		t.Errorf("watch got an event of it: %q", r.watched)
	}
}

// TestAFailureHasTheOutputOfItsTask checks that failures have the output, except if the task has no_log.
func TestAFailureHasTheOutputOfItsTask(t *testing.T) {
	r := newRun(t, `
- hosts: cluster:!node03
  gather_facts: false
  tasks:
    - name: Once
      ansible.builtin.shell: echo to be read; echo and this >&2; exit 7
      when: inventory_hostname == 'big1'
    - name: Several times
      ansible.builtin.shell: "echo about {{ item }}; {{ 'false' if item == 'b' else 'true' }}"
      loop: [a, b]
      when: inventory_hostname == 'node01'
    - name: With a secret
      ansible.builtin.shell: echo tell nobody; false
      no_log: true
      when: inventory_hostname == 'ctl'
`)
	failures, err := r.Configure(t.Context(), r.cluster, r.instances,
		reconfigure.Extent{Changed: nodeset.Of("ctl", "node01", "big1")}, func(string, string) {}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	got := map[string]string{}
	for node, err := range failures {
		got[node] = reconfigure.OutputOf(err)
	}
	want := map[string]string{
		"big1": "task: Once\ncmd: echo to be read; echo and this >&2; exit 7\nrc: 7\nmsg: non-zero return " +
			"code\nstdout: to be read\nstderr: and this\n",
		"node01": "task: Several times\nitem: b\ncmd: echo about b; false\nrc: 1\nmsg: non-zero return code\nstdout: " +
			"about b\n",
		"ctl": "task: With a secret\nthe output has been hidden due to the fact that 'no_log: true' was specified " +
			"for this result\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnUnreachableChangedNodeFails(t *testing.T) {
	r := newRun(t, twoPlays)
	got, err := r.configure(t.Context(), "node01", "node03")
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	if len(got) != 1 || !strings.HasPrefix(got["node03"], "could not be reached: ") {
		t.Errorf("verdicts are %q", got)
	}
}

// TestAHostThatHangsFailsAfterTheTimeLimitOfATask has a shorter time limit. The test kills the process that hangs,
// since Ansible does not.
func TestAHostThatHangsFailsAfterTheTimeLimitOfATask(t *testing.T) {
	r := newRun(t, `
- hosts: cluster:!node03
  gather_facts: false
  tasks:
    - name: On all
      ansible.builtin.shell: >-
        {{ 'echo $$ > ' ~ playbook_dir ~ '/../pid; exec sleep 1000' if inventory_hostname == 'big1' else 'true' }}
    - name: On those that do not hang
      ansible.builtin.command: "true"
      tags: last
`)
	settings := filepath.Join(r.Dir, "ansible", "ansible.cfg")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ntask_timeout = 60\n") {
		t.Fatal("ansible.cfg has no task_timeout of 60")
	}
	write(t, settings, strings.Replace(string(text), "task_timeout = 60", "task_timeout = 10", 1))
	t.Cleanup(func() {
		if err := syscall.Kill(awaitPID(filepath.Join(r.Dir, "pid")), syscall.SIGKILL); err != nil &&
			!errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	})
	got, err := r.configure(t.Context(), "node01")
	if err != nil || len(got) > 0 {
		t.Fatalf("%v, %v\n%s", got, err, r.log)
	}
	for _, message := range []string{"node01: On those that do not hang",
		`big1: does not have the latest changes: task "On all": `} {
		if !r.saw(message) {
			t.Errorf("watch did not get %q, but %q", message, r.watched)
		}
	}
}

func TestTheOutputOfATaskWithNoLogStaysSecret(t *testing.T) {
	r := newRun(t, twoPlays)
	write(t, filepath.Join(r.Dir, "host_vars", "node01.yml"), "secret: true\n")
	got, err := r.configure(t.Context(), "node01")
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	if !strings.HasPrefix(got["node01"], `task "With a secret": `) {
		t.Errorf("verdicts are %q", got)
	}
	if all := got["node01"] + strings.Join(r.watched, "\n") + r.log.String(); strings.Contains(all, "tell nobody") {
		t.Errorf("the secret is in the output: %s", all)
	}
}

func TestWithoutChangedNodesTheOthersGetTheAddresses(t *testing.T) {
	r := newRun(t, twoPlays)
	got, err := r.configure(t.Context())
	if err != nil || len(got) > 0 {
		t.Fatalf("%v, %v\n%s", got, err, r.log)
	}
	if !strings.Contains(r.log.String(), "TASK [On all]") || strings.Contains(r.log.String(),
		"TASK [On the changed ones]") {
		t.Errorf("Ansible printed:\n%s", r.log)
	}
}

// TestAnotherConfigurationForAllChangesTheControlNode makes the playbook fail on the control node, which is not among
// the changed nodes of the call.
func TestAnotherConfigurationForAllChangesTheControlNode(t *testing.T) {
	const playbook = `
- hosts: cluster
  gather_facts: false
  tasks:
    - name: On all
      ansible.builtin.debug:
        msg: "everywhere={{ reconfigure_everywhere }} changed={{ reconfigure_changed | join(',') }}"
- hosts: "{{ groups['control'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  tasks:
    - name: On the control node
      ansible.builtin.fail:
        msg: no such key
- hosts: cluster
  gather_facts: false
  tasks:
    - name: Elsewhere
      ansible.builtin.command: "true"
      tags: last
`
	r := newRun(t, playbook)
	got, err := r.configureAsFarAs(t.Context(), reconfigure.Extent{Changed: nodeset.Of("node01"), Everywhere: true,
		Addresses: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	const why = `task "On the control node": no such key`
	if diff := cmp.Diff(map[string]string{"ctl": why, "node01": "not configured, because the run ended at ctl: " + why},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(r.log.String(), "everywhere=True changed=ctl,node01") {
		t.Errorf("Ansible printed:\n%s", r.log)
	}

	r = newRun(t, playbook)
	if got, err := r.configure(t.Context(), "node01"); err != nil || len(got) > 0 || !strings.Contains(r.log.String(),
		"everywhere=False changed=node01") {
		t.Errorf("without another configuration: %v, %v; Ansible printed:\n%s", got, err, r.log)
	}

	delete(r.instances, "ctl")
	got, err = r.configureAsFarAs(t.Context(), reconfigure.Extent{Everywhere: true})
	if want := map[string]string{
		"ctl": "not configured: it has no instance with an address",
	}; err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("without a control node: %v, %v", got, err)
	}
}

func TestAPlaybookThatCannotBeReadIsAnErrorThatSaysWhy(t *testing.T) {
	r := newRun(t, "- hosts: cluster\n  tusks: []\n")
	_, err := r.configure(t.Context(), "node01")
	if err == nil || !strings.Contains(err.Error(), "'tusks' is not a valid attribute for a Play") {
		t.Errorf("error is %v", err)
	}
}

func TestVariablesThatCannotBeReadAreNamedByTheirFileAndLine(t *testing.T) {
	r := newRun(t, twoPlays)
	write(t, filepath.Join(r.Dir, "group_vars", "cluster.yml"), "slurm_log: yes\nname: a: b\n")
	_, err := r.configure(t.Context(), "node01")
	const want = "the playbooks ended without results: group_vars/cluster.yml, line 2, column 8: syntax error: mapping " +
		"values are not allowed in this context"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if !strings.Contains(reconfigure.OutputOf(err), "name: a: b") {
		t.Errorf("the evidence is %q", reconfigure.OutputOf(err))
	}
}

// TestADamagedFileForTheNodesIsReadAgain reads the file from the control node, as if it were missing.
func TestADamagedFileForTheNodesIsReadAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    string
	}{
		"whole":   {`{"munge_key": "k", "slurm": []}`, "given_file is there: True"},
		"damaged": {`{"munge_key": "k", "sl`, "given_file is there: False"},
		"empty":   {"", "given_file is there: False"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, `
- hosts: "{{ reconfigure_changed }}"
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "given_file is there: {{ given_file is file }}"
      tags: last
`)
			given := givenFile(r.cluster.Settings.StateDir)
			write(t, given, tc.content)
			if got, err := r.configure(t.Context(), "node01"); err != nil || len(got) > 0 {
				t.Fatalf("%v, %v\n%s", got, err, r.log)
			}
			if !strings.Contains(r.log.String(), tc.want) {
				t.Errorf("Ansible did not print %q:\n%s", tc.want, r.log)
			}
			if kept, err := os.ReadFile(given + ".damaged"); name != "whole" && string(kept) != tc.content {
				t.Errorf("kept is %q (%v)", kept, err)
			}
		})
	}
}

// TestAFaultOfTheControlHostIsNoFaultOfTheNode makes tasks fail: two that run on the control host, each for one node,
// and one that runs on its node.
func TestAFaultOfTheControlHostIsNoFaultOfTheNode(t *testing.T) {
	r := newRun(t, `
- hosts: "{{ reconfigure_changed }}"
  gather_facts: false
  strategy: free
  tasks:
    - authorize_key:
        file: /dev/null/keys
        key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI`+strings.Repeat("A", 43)+`"
        comment: a
        command: "true"
      when: inventory_hostname == 'node01'
    - full: {}
      when: inventory_hostname == 'node03'
    - ansible.builtin.command: "false"
      tags: last
`)
	write(t, filepath.Join(r.Dir, "host_vars", "node03.yml"), "{}\n")
	write(t, filepath.Join(r.Dir, "ansible", "action_plugins", "full.py"), `
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        raise OSError(28, "No space left on device")
`)
	if err := copyTree("../../ansible/action_plugins", filepath.Join(r.Dir, "ansible", "action_plugins")); err != nil {
		t.Fatal(err)
	}
	failures, err := r.Configure(t.Context(), r.cluster, r.instances,
		reconfigure.Extent{Changed: nodeset.Of("node01", "node03", "big1")}, func(string, string) {}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	for node, want := range map[string]struct {
		class reconfigure.Class
		words string
	}{
		"node01": {reconfigure.ClassAnsible, "on the control host: task \"authorize_key\": authorize the key: "},
		"node03": {reconfigure.ClassAnsible, "on the control host: task \"full\": "},
		"big1":   {reconfigure.ClassOther, `task "ansible.builtin.command": `},
	} {
		got := failures[node]
		if got == nil || reconfigure.ClassOf(got) != want.class || !strings.HasPrefix(got.Error(), want.words) {
			t.Errorf("%s: %v of class %s", node, got, reconfigure.ClassOf(got))
		}
	}
}

func TestAnInterruptEndsWhatAnsibleStarted(t *testing.T) {
	r := newRun(t, `
- hosts: node01
  gather_facts: false
  tasks:
    - name: For ever
      ansible.builtin.shell: echo $$ > {{ playbook_dir }}/../pid; exec sleep 1000
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid := make(chan int, 1)
	go func() {
		defer cancel()
		pid <- awaitPID(filepath.Join(r.Dir, "pid"))
	}()
	failures, err := r.Configure(ctx, r.cluster, r.instances, reconfigure.Extent{Changed: nodeset.Of("node01")},
		func(_, _ string) {}, nil)
	if err := syscall.Kill(<-pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process of the task still runs: %v", err)
	}
	if !errors.Is(err, context.Canceled) || failures != nil {
		t.Errorf("%v, %v", failures, err)
	}
	if left := r.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if strings.Contains(err.Error(), "ANSIBLE_") {
		t.Errorf("the environment is in the error: %v", err)
	}
}

// awaitPID returns the process id in the file as soon as there is one, or -1 after a minute.
func awaitPID(path string) int {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			return pid
		}
	}
	return -1
}

func TestAMissingAnsibleIsAnError(t *testing.T) {
	r := newRun(t, twoPlays)
	r.Binary = filepath.Join(t.TempDir(), "ansible-playbook")
	if _, err := r.configure(t.Context(), "node01"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestSweepRemovesTheFoldersOfOldRuns(t *testing.T) {
	state := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{"run-1": 25 * time.Hour, "run-2": 23 * time.Hour,
		"tmp": 25 * time.Hour} {
		dir := filepath.Join(state, "ansible", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "vars.json"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(state, now.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(state, "ansible", "*"))
	want := []string{filepath.Join(state, "ansible", "run-2"), filepath.Join(state, "ansible", "tmp")}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Errorf("error %v, left (-want +got):\n%s", err, diff)
	}
	if err := Sweep(t.TempDir(), now); err != nil {
		t.Errorf("without any run: %v", err)
	}
}

// TestResultsAreKnownBeforeTheRunEnds runs three nodes: one succeeds, one fails, and the third waits until both results
// are known.
func TestResultsAreKnownBeforeTheRunEnds(t *testing.T) {
	r := newRun(t, `
- hosts: "{{ groups['compute'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  strategy: free
  tasks:
    - name: Go on when the others are known
      ansible.builtin.shell: until [ -e {{ playbook_dir }}/../known ]; do sleep 0.1; done
      when: inventory_hostname == 'node01'
      tags: installs
    - name: The last one
      ansible.builtin.shell: "{{ 'echo broken >&2; false' if inventory_hostname == 'big1' else 'true' }}"
      tags: last
- hosts: ctl
  gather_facts: false
  tasks:
    - block:
        - name: At first
          ansible.builtin.command: "false"
      rescue:
        - name: Then
          ansible.builtin.command: "true"
          tags: last
`)
	write(t, filepath.Join(r.Dir, "host_vars", "node03.yml"), "{}\n")
	type result struct {
		node string
		seen reconfigure.Configured
		err  error
	}
	var got []result
	done := func(node string, seen reconfigure.Configured, err error) {
		got = append(got, result{node, seen, err})
		if len(got) == 2 {
			write(t, filepath.Join(r.Dir, "known"), "")
		}
	}
	extent := reconfigure.Extent{Changed: nodeset.Of("ctl", "node01", "node03", "node10", "big1")}
	failures, err := r.Configure(t.Context(), r.cluster, r.instances, extent, func(string, string) {},
		func(node string, seen reconfigure.Configured, err error) {
			if node != "node10" { // it has no address, which is known before the run begins
				done(node, seen, err)
			}
		})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	if diff := cmp.Diff([]string{"big1", "node10"}, failures.Nodes().Names()); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if len(got) != 4 || got[2].node != "node01" || got[2].err != nil || got[3].node != "ctl" || got[3].err != nil {
		t.Fatalf("results %+v", got)
	}
	if got[2].seen.Installing == 0 || got[0].seen.Installing+got[1].seen.Installing+got[3].seen.Installing != 0 {
		t.Errorf("packages were installed on node01 alone, and the results are %+v", got)
	}
	for _, early := range got[:2] {
		if want := failures[early.node]; fmt.Sprint(want) != fmt.Sprint(early.err) {
			t.Errorf("%s: done got %v, and Configure returned %v", early.node, early.err, want)
		}
	}
}

// TestTheInventoryOfARunHasOnlyItsHosts checks that it also has the addresses of all nodes.
func TestTheInventoryOfARunHasOnlyItsHosts(t *testing.T) {
	const playbook = `
- hosts: "{{ groups['compute'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: >-
          of {{ groups['all'] | sort | join(',') }} addresses {{ node_addresses.keys() | sort | join(',') }}
          {{ name_resolution }} {{ given_file }}
      tags: last
`
	for name, tc := range map[string]struct {
		extent  reconfigure.Extent
		journal string
		want    string
	}{
		"a resume": {reconfigure.Extent{Changed: nodeset.Of("node01")}, "",
			"of ctl,node01 addresses big1,ctl,node01,node03 dns STATE/ansible/given.json"},
		"new addresses": {reconfigure.Extent{Changed: nodeset.Of("node01"), Addresses: true}, "",
			"of big1,ctl,node01,node03 addresses"},
		"the control node": {reconfigure.Extent{Changed: nodeset.Of("ctl", "node01")}, "",
			"of big1,ctl,node01,node03 addresses"},
		"a journal that is shared": {reconfigure.Extent{Changed: nodeset.Of("node01")}, "postgres://somewhere",
			"dns STATE/ansible/run-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, playbook)
			write(t, filepath.Join(r.Dir, "group_vars", "all.yml"), localConnection(r.Dir)+"name_resolution: dns\n")
			r.cluster.Settings.Journal = tc.journal
			if got, err := r.configureAsFarAs(t.Context(), tc.extent); err != nil || len(got) > 1 {
				t.Fatalf("%v, %v\n%s", got, err, r.log)
			}
			if want := strings.ReplaceAll(tc.want, "STATE",
				r.cluster.Settings.StateDir); !strings.Contains(r.log.String(), want) {
				t.Errorf("Ansible did not print %q:\n%s", want, r.log)
			}
		})
	}
}

func TestAnEmptyExtentRunsNothing(t *testing.T) {
	r := newRun(t, twoPlays)
	if got, err := r.configureAsFarAs(t.Context(), reconfigure.Extent{}); err != nil || len(got) > 0 ||
		r.log.Len() > 0 {
		t.Errorf("%v, %v\n%s", got, err, r.log)
	}
}

func TestCleanRunsOnOneNodeAndSaysWhatFailed(t *testing.T) {
	r := newRun(t, "")
	write(t, filepath.Join(r.Dir, "ansible", "image.yml"), `
- hosts: "{{ groups['compute'] | intersect(reconfigure_changed) }}"
  gather_facts: false
  tasks:
    - name: Clean
      ansible.builtin.command: "{{ 'false' if inventory_hostname == 'big1' else 'true' }}"
      tags: last
`)
	if err := r.Clean(t.Context(), r.cluster, r.instances["node01"]); err != nil {
		t.Errorf("%v\n%s", err, r.log)
	}
	if strings.Contains(r.log.String(), "big1") {
		t.Errorf("another node had a task:\n%s", r.log)
	}
	err := r.Clean(t.Context(), r.cluster, r.instances["big1"])
	if err == nil || !strings.Contains(err.Error(), `clean the disk of big1: task "Clean"`) {
		t.Errorf("error %v\n%s", err, r.log)
	}
	if err := r.Clean(t.Context(), r.cluster, r.instances["node03"]); reconfigure.ClassOf(err) != reconfigure.ClassSSH {
		t.Errorf("error %v of class %s", err, reconfigure.ClassOf(err))
	}
	r.Binary = filepath.Join(r.Dir, "no-ansible-playbook")
	err = r.Clean(t.Context(), r.cluster, r.instances["node01"])
	if reconfigure.ClassOf(err) != reconfigure.ClassAnsible {
		t.Errorf("Ansible cannot start: error %v of class %s", err, reconfigure.ClassOf(err))
	}
}
