package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/postgres"
	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// host is a control host: a checkout with its own state folder, and its processes.
type host struct {
	*scriptLab
	t         *testing.T
	env       []string
	terraform string
	temporary string // for the sockets that killed programs leave behind
}

// twoHosts makes two control hosts of one cloud, which share only a PostgreSQL server with the journal and Terraform's
// state.
func twoHosts(t *testing.T) (one, two *host, log *journal.Journal) {
	database := postgres.Start(t).Database(t)
	cloud := &scriptLab{work: t.TempDir()}
	ok(t, cloud.startCloud())
	t.Cleanup(func() { ok(t, cloud.close()) })
	var hosts [2]*host
	for i := range hosts {
		lab := &scriptLab{work: t.TempDir(), cloud: cloud.cloud, server: cloud.server}
		h := &host{scriptLab: lab, t: t, temporary: scratch.Dir(t, "", "tmp")}
		hosts[i] = h
		installed, err := h.checkOut()
		ok(t, err)
		t.Cleanup(func() { ok(t, h.endProcesses()) })
		h.declares(`journal: ""`, "journal: "+database)
		h.write("terraform/openstack/backend.tf", fmt.Sprintf("terraform {\n  backend \"pg\" {\n    conn_str = %q\n  "+
			"}\n}\n", database+"&sslmode=disable"))
		h.prepare(installed)
	}
	log, err := journal.OpenURL(t.Context(), database)
	ok(t, err)
	t.Cleanup(func() { ok(t, log.Close()) })
	return hosts[0], hosts[1], log
}

// prepare adds a double of Slurm that knows the nodes and accepts all changes.
func (h *host) prepare(installed tools.Paths) {
	ok(h.t, os.Mkdir(filepath.Join(h.work, "bin"), 0o755))
	h.write("bin/ssh", `#!/bin/sh
case "$*" in
*'scontrol show nodes --json'*) 
	printf '\n-- scontrol show nodes --json\n' && cat `+filepath.Join(h.work, "slurm.json")+` &&
		printf '\n-- squeue\n\n-- completed\n' && exit 0 ;;
*'scontrol update'*) exit 0 ;;
esac
exit 255
`)
	h.terraform = installed.Terraform
	h.env = []string{
		"PATH=" + filepath.Join(h.work, "bin") + ":" + os.Getenv("PATH"), "HOME=/no-home", "TMPDIR=" + h.temporary,
		"TF_CLI_CONFIG_FILE=" + installed.TerraformRC, scriptMark + "=" + h.work,
		"OS_CLIENT_CONFIG_FILE=" + filepath.Join(h.work, "clouds.yaml"),
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *host) write(name, text string) {
	h.t.Helper()
	ok(h.t, os.WriteFile(filepath.Join(h.work, name), []byte(text), 0o755))
}

func (h *host) read(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.work, name))
	ok(h.t, err)
	return string(text)
}

func (h *host) declares(was, is string) {
	h.t.Helper()
	ok(h.t, h.declare(was, is))
}

// run makes a call, checks its exit code, and returns its output.
func (h *host) run(code int, args ...string) string {
	h.t.Helper()
	return h.command(code, h.work, "reconfigure", args...)
}

func (h *host) command(code int, dir, program string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, h.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		h.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// dies kills all processes of the host at once, like a power loss.
func (h *host) dies() {
	h.t.Helper()
	_, err := procs.End(h.mark())
	ok(h.t, err)
}

// wantClean checks that an administrator's `terraform plan` on this host plans no changes.
func (h *host) wantClean() {
	h.t.Helper()
	module := filepath.Join(h.work, "terraform", "openstack")
	h.command(0, module, h.terraform, "plan", "-detailed-exitcode", "-no-color", "-input=false")
}

// TestAHostTakesOverFromOneThatDies makes requests on two control hosts. The active host dies while Terraform makes and
// removes instances. The other host continues the work, for which it has no files.
func TestAHostTakesOverFromOneThatDies(t *testing.T) {
	const leaving, coming = 4, 4
	one, two, log := twoHosts(t)
	hosts := []*host{one, two}

	// The other host uses the data that the first host had before there was a second one.
	ok(t, os.Mkdir(filepath.Join(one.work, "state"), 0o700))
	one.write("state/known_hosts", "127.60.0.77 "+strings.TrimSuffix(publicKey, " nobody")+"\n")

	// Persistent nodes keep their instances although they do not answer. Then some nodes become cloud nodes that
	// Slurm has powered down, and others are missing.
	one.declares("min_nodes: 2", fmt.Sprintf("min_nodes: %d", 2+leaving))
	one.run(1, "deploy")
	ok(t, settledOn(log, hosts...))
	one.declares(fmt.Sprintf("min_nodes: %d", 2+leaving), "min_nodes: 2")
	for _, h := range hosts {
		h.declares("# Slurm's partitions,", freshGroup(coming)+"\n# Slurm's partitions,")
		states := slurmStates(t, numbered("node", 1, 2), numbered("new", 1, coming), numbered("node", 3, leaving))
		h.write("slurm.json", states)
	}

	hang, err := one.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "POST servers", Count: 1000})
	ok(t, err)
	one.run(0, "resume", "--no-wait", "new[01-02]")
	one.run(0, "suspend", "--no-wait", "node[03-04]")
	ok(t, eventually("an instance is asked for", func() (bool, error) {
		return one.cloud.Faults().List()[0].Hits > 0, nil
	}))
	leader := log.Holder(t.Context())
	if leader == "" || !slices.ContainsFunc(must(one.processes())(t), works) {
		t.Fatalf("the leader is %q, and not on the first host", leader)
	}
	two.run(0, "resume", "--no-wait", "new[03-04]")
	two.run(0, "suspend", "--no-wait", "node[05-06]")
	one.dies()
	one.cloud.Faults().Clear(hang)

	two.run(0, "worker")
	ok(t, settledOn(log, hosts...))
	wantOneOutcomeEach(t, log)
	want := nodeset.Of("eiffel-control", "node01", "node02").Union(numbered("new", 1, coming)).Names()
	if diff := cmp.Diff(want, serverNames(one.cloud)); diff != "" {
		t.Errorf("in the cloud (-want +got):\n%s", diff)
	}
	two.wantClean()
	if !strings.Contains(two.read("state/known_hosts"), "127.60.0.77 ssh-ed25519") {
		t.Error("the second host does not know the key that the first one knows")
	}

	// The first host is back, with its files from the time when it died.
	const nodes = "terraform/openstack/nodes.auto.tfvars.json"
	one.run(0, "worker")
	one.wantClean()
	if diff := cmp.Diff(two.read(nodes), one.read(nodes)); diff != "" {
		t.Errorf("the maps of nodes (-second +first):\n%s", diff)
	}
	one.run(0, "suspend", "node03")
	if diff := cmp.Diff(want, serverNames(one.cloud)); diff != "" {
		t.Errorf("in the cloud (-want +got):\n%s", diff)
	}
}

// TestAHostThatWasLeftBehindPlansNothing changes the declaration on only one control host, by `enlarge`. The other host
// must not revert the change.
func TestAHostThatWasLeftBehindPlansNothing(t *testing.T) {
	one, two, log := twoHosts(t)
	hosts := []*host{one, two}
	one.run(0, "pause", "--reason", "no worker is to tell of the edit")
	one.run(0, "enlarge", "standard", "--to", "3", "--no-wait")
	old := time.Now().Add(-time.Hour)
	ok(t, os.Chtimes(filepath.Join(two.work, "group_vars", "all.yml"), old, old))
	said := two.run(1, "resize")
	for _, part := range []string{filepath.Join(two.work, "group_vars", "all.yml"), one.work, "make them equal"} {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in %s", part, said)
		}
	}
	if two.run(1, "enlarge", "standard", "--to", "4"); !strings.Contains(two.read("group_vars/all.yml"), "min_nodes: "+
		"2\n") {
		t.Error("the declaration was changed all the same")
	}

	one.run(0, "continue")
	ok(t, settledOn(log, hosts...))

	// Slurm asks only once: its request is kept until the declarations are equal.
	two.run(0, "suspend", "--no-wait", "node09")
	ok(t, eventually("the request is put off", func() (bool, error) {
		pending, err := log.Pending(t.Context())
		return len(pending) == 1 && len(pending[0].Deferred) == 1 &&
			strings.Contains(pending[0].Deferred[0].Reason, "make them equal"), err
	}))
	two.write("group_vars/all.yml", one.read("group_vars/all.yml"))
	ok(t, settledOn(log, hosts...))
}

// works reports whether this process is a worker.
func works(p procs.Process) bool { return slices.Contains(p.Args, "worker") }

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// settledOn waits until every request has its outcome, and no process runs.
func settledOn(log *journal.Journal, hosts ...*host) error {
	return eventually("every request has its outcome, and the workers have ended", func() (bool, error) {
		ctx := hosts[0].t.Context()
		pending, err := log.Pending(ctx)
		left := len(pending)
		for _, h := range hosts {
			processes, e := h.processes()
			left, err = left+len(processes), errors.Join(err, e)
		}
		return left == 0 && log.Holder(ctx) == "", err
	})
}

// wantOneOutcomeEach checks that each request after the first, which was the deploy, has the expected outcome: nodes to
// remove are gone, and new nodes are made but do not answer.
func wantOneOutcomeEach(t *testing.T, log *journal.Journal) {
	t.Helper()
	requests := must(log.Requests(t.Context(), 100))(t)
	if len(requests) != 5 {
		t.Errorf("%d requests", len(requests))
	}
	for _, r := range requests[:len(requests)-1] {
		outcome, finished, err := log.Outcome(t.Context(), r.ID)
		if err != nil || !finished || len(outcome.Verdicts) != r.Nodes.Len() {
			t.Errorf("%s of %s ended %v with %+v, error %v", r.Mode, r.Nodes, finished, outcome, err)
		}
		for _, v := range outcome.Verdicts {
			if code := expected(v); code == "" || (r.Mode == reconfigure.Suspend) != (code == reconfigure.CodeDone) {
				t.Errorf("%s of %s ended with %+v", r.Mode, r.Nodes, v)
			}
		}
	}
}

func serverNames(cloud *labcloud.Cloud) []string {
	var names []string
	for _, s := range cloud.Servers() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// slurmStates returns the states that Slurm reports for persistent nodes, which have never registered, and for cloud
// nodes that it has powered down.
func slurmStates(t *testing.T, persistent, missing, cloud nodeset.NodeSet) string {
	t.Helper()
	type node struct {
		Name    string   `json:"name"`
		Address string   `json:"address"`
		State   []string `json:"state"`
	}
	var nodes []node
	for name := range persistent.All() {
		nodes = append(nodes, node{name, name, []string{"IDLE"}})
	}
	for name := range missing.All() {
		nodes = append(nodes, node{name, name, []string{"DOWN", "NOT_RESPONDING"}})
	}
	for name := range cloud.All() {
		nodes = append(nodes, node{name, name, []string{"IDLE", "CLOUD", "POWERED_DOWN"}})
	}
	text, err := json.Marshal(map[string]any{"nodes": nodes})
	ok(t, err)
	return string(text)
}
