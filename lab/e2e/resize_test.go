package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// until is a job that ends when its node has the file.
const until = "--wrap=until [ -e /tmp/go ]; do sleep 1; done"

// letGo has the jobs on a node end that wait for it.
func letGo(t *testing.T, node string) {
	t.Helper()
	if out, err := lab.Command(node, "touch", "/tmp/go").CombinedOutput(); err != nil {
		t.Fatalf("touch: %v\n%s", err, out)
	}
}

func assertNeverRestarted(t *testing.T, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		if restarts, err := lab.JobField(id, "Restarts"); restarts != "0" {
			t.Errorf("job %s was restarted %s times (%v)", id, restarts, err)
		}
	}
}

func assertRunning(t *testing.T, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		if state, err := lab.JobState(id); state != "RUNNING" {
			t.Errorf("job %s is %s (%v)", id, state, err)
		}
	}
	assertNeverRestarted(t, jobs...)
}

// resizesBack has the persistent nodes be what the lab declares when the test ends, however it ends: a job that is left would be waited for.
func resizesBack(t *testing.T) {
	t.Helper()
	declared := lab.Declaration
	t.Cleanup(func() {
		if out, err := lab.Command(cluster.ControlNodeName, "scancel", "--user=alice").CombinedOutput(); err != nil {
			t.Errorf("scancel: %v\n%s", err, out)
		}
		if err := lab.Declare(declared); err != nil {
			t.Error(err)
		}
		if out, err := lab.Reconfigure(context.Background(), "resize").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func stateOf(t *testing.T, node string) string {
	t.Helper()
	state, err := lab.NodeState(node)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestResizeLosesNoJob makes a busy cloud node persistent and a cloud node again, with jobs on other nodes and in another partition all the while.
func TestResizeLosesNoJob(t *testing.T) {
	resizesBack(t)
	jobs := []string{job(t, "--nodelist=node01", until), job(t, "--nodelist=node03", until), job(t, "--partition=burst", "--nodelist=b01", until)}
	for _, id := range jobs {
		awaitJob(t, id, "RUNNING")
	}
	bystanders := []string{cluster.ControlNodeName, "node01", "node02", "node03", "b01"}
	before := identities(t, bystanders...)

	if out, code := reconfigure(t, "enlarge", "standard", "--to", "4"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for node, want := range map[string]string{"node03": "MIXED", "node04": "IDLE", "b01": "MIXED+CLOUD"} {
		if state := stateOf(t, node); state != want {
			t.Errorf("%s is %s, not %s", node, state, want)
		}
	}
	assertRunning(t, jobs...)
	assertTerraformIsClean(t)

	// An edit by hand, and the deploy that somebody else makes, is the other way back: the node is a cloud node, and keeps what it has.
	if err := lab.Declare(lab.Declaration); err != nil {
		t.Fatal(err)
	}
	if out, code := reconfigure(t, "deploy"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if state := stateOf(t, "node03"); state != "MIXED+CLOUD" {
		t.Errorf("node03 is %s", state)
	}
	assertRunning(t, jobs...)
	if diff := cmp.Diff(before, identities(t, bystanders...)); diff != "" {
		t.Errorf("instances changed (-before +after):\n%s", diff)
	}
	for _, node := range []string{"node01", "node03", "b01"} {
		letGo(t, node)
	}
	for _, id := range jobs {
		awaitJob(t, id, "COMPLETED")
	}
	assertNeverRestarted(t, jobs...)
	awaitQuiet(t) // Slurm powers node03 and node04 down: they are cloud nodes
	assertTerraformIsClean(t)
}

// TestShrinkWaitsForTheJob, and its worker and its caller are killed meanwhile.
func TestShrinkWaitsForTheJob(t *testing.T) {
	resizesBack(t)
	if out, code := reconfigure(t, "enlarge", "standard", "--by", "2"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	id := job(t, "--nodelist=node04", until)
	awaitJob(t, id, "RUNNING")

	shrink := lab.Reconfigure(t.Context(), "shrink", "standard", "--to", "2")
	if err := shrink.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shrink.Wait() }) // it is killed below; this is for a test that ends before
	eventually(t, updatePatience, func() (bool, string) {
		state, err := lab.NodeState("node04")
		reason, _ := lab.NodeReason("node04")
		_, there := server("node03")
		return strings.Contains(state, "DRAIN") && strings.HasPrefix(reason, "reconfigure: shrink") && !there, fmt.Sprintf("node04 is %s, %q (%v), node03 is there: %v", state, reason, err, there)
	})
	if err := shrink.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killWorkers(t)
	assertRunning(t, id)
	letGo(t, "node04")
	awaitJob(t, id, "COMPLETED")
	assertNeverRestarted(t, id)
	// Those who live in Ansible ask through its door.
	play := exec.CommandContext(t.Context(), "ansible-playbook", "resize.yml", "-e", "group=standard")
	play.Dir, play.Env = filepath.Join(lab.Site, "ansible"), lab.Reconfigure(t.Context()).Env
	if out, err := play.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, workerLogs())
	}
	awaitQuiet(t)
	awaitNothingWaits(t)
	assertTerraformIsClean(t)
	// What was handed to power saving can be used as any cloud node.
	again := job(t, "--nodelist=node04", "--wrap=true")
	awaitJob(t, again, "COMPLETED")
	awaitQuiet(t)
}

// killWorkers kills every worker of the lab as nothing else does: at once, and without a word.
func killWorkers(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, file := range files {
		cmdline, _ := os.ReadFile(file) // a process that has just ended has none
		if !strings.Contains(string(cmdline), lab.Site+"\x00worker\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Error("there was no worker to kill: the test shows nothing")
	}
}

// TestBusyNodeThatIsDeclaredNoMore is what no slurm.conf may leave out while its job runs.
func TestBusyNodeThatIsDeclaredNoMore(t *testing.T) {
	resizesBack(t)
	id := job(t, "--nodelist=node06", until)
	awaitJob(t, id, "RUNNING")
	declareUntilTheEnd(t, func(g *cluster.NodeGroup) { g.MaxNodes = 5 })
	if out, code := reconfigure(t, "deploy"); code == 0 || !strings.Contains(out, "node06, which no node group declares any more") {
		t.Errorf("deploy: exit code %d\n%s", code, out)
	}
	if out, code := reconfigure(t, "resize", "--no-wait", "standard"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	eventually(t, updatePatience, func() (bool, string) {
		state, err := lab.NodeState("node06")
		return strings.Contains(state, "DRAIN"), fmt.Sprintf("node06 is %s (%v)", state, err)
	})
	assertRunning(t, id)
	letGo(t, "node06")
	awaitJob(t, id, "COMPLETED")
	eventually(t, updatePatience, func() (bool, string) {
		_, there := server("node06")
		_, err := lab.NodeState("node06")
		return !there && err != nil, fmt.Sprintf("node06 is there: %v; Slurm knows it: %v", there, err == nil)
	})
	awaitNothingWaits(t)
	assertTerraformIsClean(t)
}
