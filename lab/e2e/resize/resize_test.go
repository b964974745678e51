package resize_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// resizesBack restores the declared persistent nodes when the test ends. It cancels all jobs, since the resize would
// wait for them.
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

// TestResizeLosesNoJob makes busy cloud nodes persistent and cloud nodes again, while jobs run on other nodes and in
// another partition. One of them, node05, is too old, and Slurm would power it down when its job has ended.
func TestResizeLosesNoJob(t *testing.T) {
	resizesBack(t)
	jobs := []string{lab.Job(t, "--nodelist=node01", harness.Until), lab.Job(t, "--nodelist=node03", harness.Until),
		lab.Job(t, "--nodelist=node05", harness.Until), lab.Job(t, "--partition=burst", "--nodelist=b01", harness.Until)}
	for _, id := range jobs {
		lab.AwaitJob(t, id, "RUNNING")
	}
	bystanders := []string{cluster.ControlNodeName, "node01", "node02", "node03", "node05", "b01"}
	before := lab.Identities(t, bystanders...)
	lab.OnControl(t, "scontrol", "update", "nodename=node05", "state=POWER_DOWN_ASAP",
		"reason="+reconfigure.ReasonPrefix+" "+reconfigure.AgedReason)

	if out, code := lab.Call(t, "enlarge", "standard", "--to", "5"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for node, want := range map[string]string{
		"node03": "MIXED", "node04": "IDLE", "node05": "MIXED", "b01": "MIXED+CLOUD",
	} {
		lab.AwaitState(t, node, want)
	}
	lab.AssertRunning(t, jobs...)
	lab.AssertTerraformIsClean(t)

	// An edit and a later deploy make it a cloud node again, with the same instance.
	if err := lab.Declare(lab.Declaration); err != nil {
		t.Fatal(err)
	}
	if out, code := lab.Call(t, "deploy"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, node := range []string{"node03", "node05"} {
		lab.AwaitState(t, node, "MIXED+CLOUD")
	}
	lab.AssertRunning(t, jobs...)
	if diff := cmp.Diff(before, lab.Identities(t, bystanders...)); diff != "" {
		t.Errorf("instances changed (-before +after):\n%s", diff)
	}
	for _, node := range []string{"node01", "node03", "node05", "b01"} {
		lab.LetGo(t, node)
	}
	for _, id := range jobs {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, jobs...)
	lab.AwaitQuiet(t) // Slurm powers node03, node04 and node05 down: they are cloud nodes
	lab.AssertTerraformIsClean(t)
}

// TestShrinkWaitsForTheJob kills the worker and the caller while the request waits.
func TestShrinkWaitsForTheJob(t *testing.T) {
	resizesBack(t)
	if out, code := lab.Call(t, "enlarge", "standard", "--by", "2"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	id := lab.Job(t, "--nodelist=node04", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")

	shrink := lab.Reconfigure(t.Context(), "shrink", "standard", "--to", "2")
	if err := shrink.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shrink.Wait() }) // killed below; this is for a test that ends early
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		state, err := lab.NodeState("node04")
		reason, _ := lab.NodeReason("node04")
		_, there := lab.Server("node03")
		return strings.Contains(state, "DRAIN") && strings.HasPrefix(reason, "reconfigure: shrink") && !there,
			fmt.Sprintf("node04 is %s, %q (%v), node03 is there: %v", state, reason, err, there)
	})
	if err := shrink.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lab.KillWorkers(t)
	lab.AssertRunning(t, id)
	lab.LetGo(t, "node04")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	// The same request by the playbook resize.yml.
	play := lab.OnControlHost(t.Context(), filepath.Join(lab.Site, "ansible"), "ansible-playbook", "resize.yml",
		"-e", "group=standard")
	if out, err := play.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, lab.WorkerLogs())
	}
	lab.AwaitQuiet(t)
	lab.AwaitNothingWaits(t)
	lab.AssertTerraformIsClean(t)
	// A node that is now a cloud node can be used like any other.
	again := lab.Job(t, "--nodelist=node04", "--wrap=true")
	lab.AwaitJob(t, again, "COMPLETED")
	lab.AwaitQuiet(t)
}

// TestBusyNodeThatIsDeclaredNoMore removes a node from the declaration: slurm.conf must list it while its job runs.
func TestBusyNodeThatIsDeclaredNoMore(t *testing.T) {
	resizesBack(t)
	id := lab.Job(t, "--nodelist=node06", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].MaxNodes = 5 })
	if out, code := lab.Call(t, "deploy"); code == 0 ||
		!strings.Contains(out, "node06, which no node group declares any more") {
		t.Errorf("deploy: exit code %d\n%s", code, out)
	}
	if out, code := lab.Call(t, "resize", "--no-wait", "standard"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		state, err := lab.NodeState("node06")
		return strings.Contains(state, "DRAIN"), fmt.Sprintf("node06 is %s (%v)", state, err)
	})
	lab.AssertRunning(t, id)
	lab.LetGo(t, "node06")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		_, there := lab.Server("node06")
		_, err := lab.NodeState("node06")
		return !there && err != nil, fmt.Sprintf("node06 is there: %v; Slurm knows it: %v", there, err == nil)
	})
	lab.AwaitNothingWaits(t)
	lab.AssertTerraformIsClean(t)
}
