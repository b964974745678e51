package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

var callersSeed = flag.Uint64("callers-seed", rand.Uint64(), "which callers are killed, and when")

// The requests of 200 callers: five of them give up each of 20 nodes, and five want each of 20 other nodes.
const (
	callers      = 200
	callersKills = callers / 10
	leaving      = 20
	coming       = 20
	mostApplies  = 10 // on a busy computer the calls come slowly, and thus in more batches
)

// TestTwoHundredCallersAtOnce starts the callers as Slurm and slurmds do, and kills a tenth of them in mid-call. It
// counts the runs of real Terraform.
func TestTwoHundredCallersAtOnce(t *testing.T) {
	t.Logf("-callers-seed %d", *callersSeed)
	c := newCrowdLab(t)
	made, applies := c.created(), c.applies()
	calls, killed := c.storm(rand.New(rand.NewPCG(*callersSeed, 0)))

	// The callers that were not killed get their outcomes without further calls.
	c.await("each request that a caller was told of has its outcome", func() bool {
		return !slices.ContainsFunc(calls, func(call *call) bool { return call.told() != 0 && !c.ended(call.told()) })
	})
	// A caller that was killed after it stored its request, but before it started a worker, leaves the request to
	// the next call.
	c.run(0, "worker")
	if err := c.awaitSettled(); err != nil {
		t.Fatal(err)
	}

	left := c.demandOutcomes(calls)
	t.Logf("of %d killed callers, %d had written their request down; %d processes found another worker at work",
		killed, left, c.logged("another worker is at work"))
	if n := c.logged("level=ERROR msg=\"request failed\""); n > 0 {
		t.Errorf("%d requests failed as a whole: see the worker's log", n)
	}
	want := nodeset.Of("eiffel-control", "node01", "node02").Union(numbered("new", 1, coming)).Names()
	if diff := cmp.Diff(want, serverNames(c.cloud)); diff != "" {
		t.Errorf("in the cloud (-want +got):\n%s", diff)
	}
	if n := c.created() - made; n != coming {
		t.Errorf("%d instances were made for %d nodes", n, coming)
	}
	n := c.applies() - applies
	t.Logf("%d callers cost %d runs of `terraform apply`", callers, n)
	if n > mostApplies {
		t.Errorf("%d runs of `terraform apply`, more than %d", n, mostApplies)
	}
}

// crowdLab is a lab whose cloud has instances for the nodes to remove.
type crowdLab struct {
	*scriptLab
	t       *testing.T
	env     []string
	journal *journal.Journal
}

func newCrowdLab(t *testing.T) *crowdLab {
	c := &crowdLab{scriptLab: &scriptLab{test: t, work: t.TempDir()}, t: t}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	installed, err := c.makeCluster()
	c.check(err)
	c.check(os.Mkdir(c.file("bin"), 0o755))
	// Each run of Terraform writes its command to a file.
	const script = "#!/bin/sh\necho \"$1\" >>%s\nexec %s \"$@\"\n"
	c.write("bin/terraform", fmt.Sprintf(script, c.file("runs"), installed.Terraform))
	c.write("bin/ssh", `#!/bin/sh
case "$*" in
*'scontrol show nodes --json'*) 
	printf '\n-- scontrol show nodes --json\n' && cat `+c.file("slurm.json")+` &&
		printf '\n-- squeue\n\n-- completed\n' && exit 0 ;;
*'scontrol update'*) exit 0 ;;
esac
exit 255
`)
	c.check(c.declare("terraform: "+installed.Terraform, "terraform: "+c.file("bin", "terraform")))
	c.env = []string{
		"PATH=" + c.file("bin") + ":" + os.Getenv("PATH"), "HOME=/no-home", "TMPDIR=" + os.TempDir(),
		"TF_CLI_CONFIG_FILE=" + installed.TerraformRC, scriptMark + "=" + c.work,
	}

	// Instances of persistent nodes stay although they do not answer. Then these nodes become cloud nodes, which
	// Slurm has powered down, and a group of persistent nodes without instances is added.
	c.check(c.declare("min_nodes: 2", fmt.Sprintf("min_nodes: %d", 2+leaving)))
	c.check(c.declare("max_nodes: 20", "max_nodes: 40"))
	c.run(1, "deploy")
	c.check(c.awaitSettled())
	c.check(c.declare(fmt.Sprintf("min_nodes: %d", 2+leaving), "min_nodes: 2"))
	c.check(c.declare("# Slurm's partitions,", freshGroup(coming)+"\n# Slurm's partitions,"))
	c.writeStates()

	c.journal, err = journal.Open(t.Context(), c.file("state"))
	c.check(err)
	t.Cleanup(func() { c.check(c.journal.Close()) })
	return c
}

// freshGroup declares a node group, all of whose nodes are persistent.
func freshGroup(n int) string {
	return fmt.Sprintf("  - {name: fresh, prefix: new, width: 2, image: debian-12, flavor: m1.large, "+
		"network: cluster, min_nodes: %d, max_nodes: %d, gres: \"\"}\n", n, n)
}

func (c *crowdLab) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *crowdLab) file(elem ...string) string {
	return filepath.Join(append([]string{c.work}, elem...)...)
}

func (c *crowdLab) write(name, text string) {
	c.t.Helper()
	c.check(os.WriteFile(c.file(name), []byte(text), 0o755))
}

// writeStates writes the states that Slurm reports for the nodes.
func (c *crowdLab) writeStates() {
	there := numbered("node", 1, 2).Union(numbered("new", 1, coming)) // or each request for a node would reboot it
	c.write("slurm.json", slurmStates(c.t, there, nodeset.NodeSet{}, numbered("node", 3, leaving)))
}

// numbered returns n nodes from a number on.
func numbered(prefix string, from, n int) nodeset.NodeSet {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s%02d", prefix, from+i))
	}
	return nodeset.Of(names...)
}

func (c *crowdLab) command(args ...string) *exec.Cmd {
	cmd := exec.Command("reconfigure", args...)
	cmd.Dir, cmd.Env = c.work, c.env
	return cmd
}

// run makes a call and checks its exit code.
func (c *crowdLab) run(code int, args ...string) {
	c.t.Helper()
	cmd := c.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		c.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// call is one caller.
type call struct {
	*exec.Cmd
	name           string
	mode           reconfigure.Mode
	node           string
	follows        bool
	stdout, stderr bytes.Buffer
	over           chan struct{} // closed when the call has ended
}

// prepare returns the calls: five name each node, and one of these waits for the outcome.
func (c *crowdLab) prepare() []*call {
	calls := make([]*call, callers)
	for i := range calls {
		k := &call{name: fmt.Sprint("caller ", i), mode: reconfigure.Suspend, over: make(chan struct{})}
		k.node = numbered("node", 3+i%leaving, 1).String()
		if i >= callers/2 {
			k.mode, k.node = reconfigure.Resume, numbered("new", 1+i%coming, 1).String()
		}
		args := []string{"--json", string(k.mode), "--reason", k.name, "--no-wait", k.node}
		if k.follows = i%(callers/2) < leaving; k.follows {
			args = slices.Delete(args, 4, 5)
		}
		k.Cmd = c.command(args...)
		k.Stdout, k.Stderr = &k.stdout, &k.stderr
		calls[i] = k
	}
	return calls
}

// storm makes all calls at once, and kills some that are still running: each when a number of others have ended. It
// returns when all have ended.
func (c *crowdLab) storm(random *rand.Rand) (calls []*call, killed int) {
	calls = c.prepare()
	ends := make(chan struct{}, callers)
	random.Shuffle(callers, func(i, k int) { calls[i], calls[k] = calls[k], calls[i] })
	for _, call := range calls {
		c.check(call.Start())
		go func() {
			_ = call.Wait() // the process state has the result
			close(call.over)
			ends <- struct{}{}
		}()
	}
	moments := make([]int, callersKills)
	for i := range moments {
		moments[i] = random.IntN(callers * 2 / 3) // the other calls follow, or will be killed
	}
	slices.Sort(moments)
	ended := 0
	for _, moment := range moments {
		for ; ended < moment; ended++ {
			c.hear(ends)
		}
		for !killOne(calls, random) {
		}
		killed++
	}
	for ; ended < callers; ended++ {
		c.hear(ends)
	}
	return calls, killed
}

func (c *crowdLab) hear(ends <-chan struct{}) {
	c.t.Helper()
	select {
	case <-ends:
	case <-time.After(scriptPatience):
		c.t.Fatal("callers wait for ever")
	}
}

// killOne kills a running call; it returns false if the call ended just before.
func killOne(calls []*call, random *rand.Rand) bool {
	var alive []*call
	for _, call := range calls {
		select {
		case <-call.over:
		default:
			alive = append(alive, call)
		}
	}
	victim := alive[random.IntN(len(alive))]
	_ = victim.Process.Kill() // it may have ended
	<-victim.over
	return victim.killed()
}

func (k *call) killed() bool {
	status, ok := k.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// told returns the request that a call was told, from its output; 0 if there is none.
func (k *call) told() reconfigure.RequestID {
	var said struct{ Request reconfigure.RequestID }
	if err := json.Unmarshal(k.stdout.Bytes(), &said); err != nil {
		return 0
	}
	return said.Request
}

// demandOutcomes compares the callers' output with the journal, and counts the requests of killed callers.
func (c *crowdLab) demandOutcomes(calls []*call) (ofKilled int) {
	c.t.Helper()
	requests, err := c.journal.Requests(c.t.Context(), 10*callers)
	c.check(err)
	byName := map[string][]reconfigure.Request{}
	for _, r := range requests {
		byName[r.Reason] = append(byName[r.Reason], r)
	}
	for _, call := range calls {
		written := byName[call.name]
		if call.killed() {
			ofKilled += len(written)
		}
		if err := c.verdict(call, written); err != nil {
			c.t.Errorf("%s, %s, said %q and %q: %v",
				call.name, call.ProcessState, call.stdout.String(), call.stderr.String(), err)
		}
	}
	return ofKilled
}

// verdict returns the fault in the result of a call and in its requests.
func (c *crowdLab) verdict(call *call, written []reconfigure.Request) error {
	if len(written) == 0 && call.killed() && call.told() == 0 {
		return nil
	}
	if len(written) != 1 {
		return fmt.Errorf("%d requests are in the journal", len(written))
	}
	r := written[0]
	outcome, ok, err := c.journal.Outcome(c.t.Context(), r.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("request %s has no outcome", r.ID)
	case r.Mode != call.mode || r.Nodes.String() != call.node:
		return fmt.Errorf("request %s is to %s %s", r.ID, r.Mode, r.Nodes)
	case len(outcome.Verdicts) != 1 || outcome.Verdicts[0].Node != call.node ||
		outcome.Code != expected(outcome.Verdicts[0]):
		return fmt.Errorf("its outcome is %+v", outcome)
	case call.killed():
		return nil
	case call.told() != r.ID:
		return fmt.Errorf("its request is %s", r.ID)
	}
	code := 0
	if call.follows && outcome.Code != reconfigure.CodeDone {
		code = 1
	}
	if got := call.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("it exited with %d, not %d", got, code)
	}
	return nil
}

// expected returns the only valid code for a verdict here: a node is removed, or is already gone; it is made but does
// not answer, or exists already.
func expected(v reconfigure.Verdict) reconfigure.Code {
	switch {
	case v.Status == reconfigure.StatusUnchanged, v.Status == reconfigure.StatusDone && v.Action == reconfigure.Remove:
		return reconfigure.CodeDone
	case v.Status == reconfigure.StatusFailed && v.Action == reconfigure.Create && v.Phase == reconfigure.PhaseBoot:
		return reconfigure.CodeFailed
	}
	return ""
}

// ended reports whether a request that a caller was told of has its outcome.
func (c *crowdLab) ended(id reconfigure.RequestID) bool {
	_, there, err := c.journal.Request(c.t.Context(), id)
	c.check(err)
	if !there {
		c.t.Fatalf("a caller was told of request %s, which is not in the journal", id)
	}
	_, ok, err := c.journal.Outcome(c.t.Context(), id)
	c.check(err)
	return ok
}

func (c *crowdLab) await(what string, holds func() bool) {
	c.t.Helper()
	c.check(eventually(what, func() (bool, error) { return holds(), nil }))
}

// applies returns how often Terraform was called to change something.
func (c *crowdLab) applies() int {
	text, err := os.ReadFile(c.file("runs"))
	c.check(err)
	return strings.Count(string(text), "apply\n")
}

// logged returns how often a text occurs in the workers' log.
func (c *crowdLab) logged(text string) int {
	log, err := os.ReadFile(c.file("state", "log", "worker.log"))
	if !errors.Is(err, os.ErrNotExist) {
		c.check(err)
	}
	return strings.Count(string(log), text)
}

// created returns how often the cloud was asked to make a server.
func (c *crowdLab) created() int { return c.cloud.Calls()["POST /compute/v2.1/servers"] }
