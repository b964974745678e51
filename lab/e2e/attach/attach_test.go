package attach_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// TestAttachAndDetach attaches while a job of the site runs, which runs until after the detachment. In between, nodes
// come and go for jobs.
func TestAttachAndDetach(t *testing.T) {
	own := lab.StartOwnJob(t)
	before := lab.Sums(t, cluster.ControlNodeName)

	if out, code := lab.Call(t, "plan", "attach"); code != 12 { // the site is not configless
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	lab.AssertUnchanged(t, cluster.ControlNodeName, before, "after the plan")
	t.Log(lab.Do(t, "attach"))
	slurmctld := lab.OnControl(t, "pgrep", "-x", "slurmctld")
	attached := lab.Sums(t, cluster.ControlNodeName)
	again := func(when string) {
		t.Helper()
		lab.Do(t, "attach")
		if now := lab.OnControl(t, "pgrep", "-x", "slurmctld"); now != slurmctld {
			t.Errorf("%s slurmctld was started anew: %s, then %s", when, slurmctld, now)
		}
		lab.AssertUnchanged(t, cluster.ControlNodeName, attached, when)
	}
	again("after the second attachment")
	// The programs on the control node are those of the version before.
	lab.OnControl(t, "sh", "-c", "echo '# of another version' >>/etc/slurm/eiffel/bin/resume.sh")
	again("after an upgrade")
	lab.AssertRunning(t, own)
	for _, command := range [][]string{{"enlarge", "cloud", "--to", "1"}, {"resize"}, {"image", "create", "node01"}} {
		if out, code := lab.Call(t, command...); code != 2 || !strings.Contains(out, "control_node.existing") {
			t.Errorf("%v: exit code %d:\n%s", command, code, out)
		}
	}
	lab.Do(t, "deploy")

	// Two new nodes for one job.
	two := lab.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	lab.AwaitJob(t, two, "RUNNING")
	if out, code := lab.Call(t, "detach"); code != 11 || !strings.Contains(out, "node[01-02]: there are instances") ||
		!strings.Contains(out, "job would end") {
		t.Errorf("detach: exit code %d:\n%s", code, out)
	}
	if out := lab.Do(t, "status"); !strings.Contains(out, "node01") {
		t.Errorf("status:\n%s", out)
	}

	// A reboot by Slurm makes the node anew.
	lab.Reimage(t, "node02", two, "node01")
	lab.AssertNeverRestarted(t, two)
	if lab.HasAccounting() {
		accounted(t, two)
	}
	lab.AwaitQuiet(t)

	// The job of a node that fails is requeued, and runs on the other one.
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node01", Count: 1000})
	failed := lab.Job(t, "--partition=burst", "--wrap=hostname >/tmp/on")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		lab.Hurry(t, failed)
		state, err := lab.JobState(failed)
		return state == "COMPLETED", "job is " + state + " " + errorText(err)
	})
	if restarts, err := lab.JobField(failed, "Restarts"); err != nil || restarts == "0" {
		t.Errorf("the job was restarted %s times (%v)", restarts, err)
	}
	lab.AwaitQuiet(t)

	t.Log(lab.Do(t, "detach"))
	lab.AssertUnchanged(t, cluster.ControlNodeName, before, "after the detachment")
	if _, err := lab.NodeState("node01"); err == nil {
		t.Error("slurmctld still knows node01")
	}
	lab.Do(t, "detach")
	lab.AssertUnchanged(t, cluster.ControlNodeName, before, "after the second detachment")
	lab.EndOwnJob(t, own)
	if server, ok := lab.Server(cluster.ControlNodeName); !ok || server.Status != "ACTIVE" {
		t.Errorf("the site's control node is %+v", server)
	}
}

// accounted checks that the site's accounting, limits and Prolog also apply to new nodes. job has run on both.
func accounted(t *testing.T, job string) {
	t.Helper()
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		said := lab.OnControl(t, "sacct", "--jobs="+job, "--noheader", "--parsable2", "--allocations",
			"--format=NodeList,State")
		return said == "node[01-02]|COMPLETED", said
	})
	if said := lab.On(t, "node01", "cat", existing.PrologLog); said != job+"\n"+job {
		t.Errorf("Prolog and Epilog of job %s have written:\n%s", job, said)
	}
	const long = "--wrap=sleep 1000"
	// alice may have two jobs, and has one on the site's own node.
	first, second := lab.Job(t, "--partition=burst", long), lab.Job(t, "--partition=burst", long)
	lab.AwaitJob(t, first, "RUNNING")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		reason, err := lab.JobField(second, "Reason")
		return err == nil && strings.HasPrefix(reason, "AssocMaxJobsLimit "), "the second job of alice waits for " + reason
	})
	lab.OnControl(t, "scancel", first, second)
	lab.AwaitJob(t, first, "CANCELLED")
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
