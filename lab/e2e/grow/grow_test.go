package grow_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/slurmexec"
	reconfiguring "github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

func TestDeployTwiceChangesNothing(t *testing.T) {
	before := lab.Identities(t, cluster.ControlNodeName, "node01", "node02")
	lab.Do(t, "deploy") // it may drop nodes that went away since the last run
	lab.AssertDeployChangesNothing(t)
	if diff := cmp.Diff(before, lab.Identities(t, cluster.ControlNodeName, "node01", "node02")); diff != "" {
		t.Errorf("instances changed (-before +after):\n%s", diff)
	}
	lab.AssertTerraformIsClean(t)
}

func TestNodesComeAndGoWithAJob(t *testing.T) {
	pages := openPages(t)
	id := lab.Job(t, "--nodelist=node[03-04]", "--nodes=2", "--wrap=srun hostname; until [ -e /tmp/go ]; do sleep 1; done")
	pages.follow("node03", id)
	instances := lab.Identities(t, "node03", "node04")
	lab.AssertTerraformIsClean(t)
	lab.AwaitQuiet(t)
	pages.end("node03")
	lab.AssertTerraformIsClean(t)
	assertTimeline(t, id, instances)
}

// assertTimeline checks that the timeline of a job on node03 and node04 is complete and in order after the instances
// are gone, and that the usage has their hours.
func assertTimeline(t *testing.T, id string, instances map[string]harness.Identity) {
	t.Helper()
	kept, err := journal.Open(t.Context(), lab.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	number, _ := strconv.ParseInt(id, 10, 64)
	if runs, err := kept.JobRuns(t.Context(), time.Time{}, number); err != nil || len(runs) != 1 {
		t.Errorf("the worker has kept %+v of the job (%v)", runs, err)
	}
	out, failed := lab.Reconfigure(t.Context(), "jobs", id, "-o", "json").Output()
	var jobs []usage.Job
	if err := json.Unmarshal(out, &jobs); err != nil || failed != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v\n%s", failed, err, out)
	}
	j := jobs[0]
	if j.State != "COMPLETED" || j.User == "" || j.Partition == "" || j.Nodes.String() != "node[03-04]" {
		t.Errorf("the job is %+v", j)
	}
	ways := map[string][]usage.What{}
	for _, s := range j.Timeline {
		for _, node := range []string{"node03", "node04"} {
			if s.Node == "" || s.Node == node {
				ways[node] = append(ways[node], s.What)
			}
		}
	}
	whole := []usage.What{
		usage.Submitted, usage.Asked, usage.Planned, usage.Made, usage.Booted, usage.Configured, usage.Registered,
		usage.Started, usage.Ended, usage.Removed,
	}
	if d := cmp.Diff(map[string][]usage.What{"node03": whole, "node04": whole}, ways); d != "" {
		t.Errorf("steps (-want +got):\n%s\n%s", d, out)
	}
	for _, l := range j.Instances {
		if l.Instance != instances[l.Node].ID || l.Image == "" || l.Flavor == "" || l.Host == "" {
			t.Errorf("%s was %+v, and had %+v", l.Node, l, instances[l.Node])
		}
	}
	served, code := lab.Call(t, "jobs", "--instance", instances["node03"].ID)
	if code != 0 || !strings.Contains(served, id) {
		t.Errorf("exit code %d; the jobs of node03's instance are\n%s", code, served)
	}
	if report, code := lab.Call(t, "report", "--since", "1h"); code != 0 || !strings.Contains(report, j.User) {
		t.Errorf("exit code %d; the report is\n%s", code, report)
	}
}

func TestJobOverTwoGroups(t *testing.T) {
	id := lab.Job(t, "--nodelist=node03,b01", "--nodes=2", "--wrap=srun hostname")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AwaitQuiet(t)
}

func TestABadNodeDelaysNoOther(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node04"})
	good1 := lab.Job(t, "--nodelist=node03", "--wrap=true")
	bad := lab.Job(t, "--nodelist=node04", "--wrap=true")
	good2 := lab.Job(t, "--nodelist=node05", "--wrap=true")

	// The node is DOWN in Slurm at once, and not after ResumeTimeout.
	patience := time.Duration(lab.Declaration.Slurm.ResumeTimeout) * time.Second / 2
	lab.Eventually(t, patience, func() (bool, string) {
		reason, err := lab.NodeReason("node04")
		return strings.HasPrefix(reason, "reconfigure:") && strings.Contains(reason, "No valid host"),
			"the reason is " + reason + errorText(err)
	})
	lab.Eventually(t, patience, func() (bool, string) {
		restarts, err := lab.JobField(bad, "Restarts")
		return restarts != "" && restarts != "0", "restarts of the job: " + restarts + errorText(err)
	})
	lab.AwaitJob(t, good1, "COMPLETED")
	lab.AwaitJob(t, good2, "COMPLETED")
	// The fault has ended: the node is usable again, and the job gets it.
	lab.Hurry(t, bad)
	lab.AwaitJob(t, bad, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
	ways := lab.Do(t, "jobs", bad)
	i := strings.Index(ways, "No valid host")
	if i < 0 || !strings.Contains(ways[i:], "COMPLETED") {
		t.Errorf("the output lacks the failure of the first node, or the later run of the job:\n%s", ways)
	}
}

// TestAnotherFlavorWhereThereIsNoRoom lets the cloud have no room for the first instance of b01, so that its job runs on
// one of the group's fallback flavor.
func TestAnotherFlavorWhereThereIsNoRoom(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "b01", Count: 1})
	id := lab.Job(t, "--nodelist=b01", "--wrap=sleep 5")
	lab.AwaitJob(t, id, "RUNNING")
	if s, _ := lab.Server("b01"); s.Flavor != cluster.FlavorLarge {
		t.Errorf("the instance has flavor %q", s.Flavor)
	}
	if status := lab.Do(t, "status", "--json"); strings.Contains(status, `"flavor"`) {
		t.Errorf("a node is outdated by its flavor:\n%s", status)
	}
	if story, _ := lab.Call(t, "explain", "b01"); !strings.Contains(story, "flavor small; it did not become ready: capacity: No valid host") {
		t.Errorf("the story does not say why it has another flavor:\n%s", story)
	}
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

// The job is not affected when the first instance of its node fails.
func TestABadInstanceIsReplaced(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoSSHD, Server: "node03", Count: 1})
	id := lab.Job(t, "--nodelist=node03", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	if out, code := lab.Call(t, "evidence", "node03"); code != 0 || !strings.Contains(out, "node03 failed at boot") {
		t.Errorf("exit code %d, and the evidence is\n%s", code, out)
	}
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

func TestAnUnreachableNodeDelaysNoOther(t *testing.T) {
	service := func(do string) {
		t.Helper()
		if out, err := lab.Command("node02", "service", "ssh", do).CombinedOutput(); err != nil {
			t.Fatalf("service ssh %s: %v\n%s", do, err, out)
		}
	}
	service("stop")
	defer service("start")
	id := lab.Job(t, "--nodelist=node03", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AwaitQuiet(t)
}

func TestResumeOfAnExistingNodeChangesNothing(t *testing.T) {
	id := lab.Job(t, "--nodelist=node03", "--wrap=sleep 300")
	lab.AwaitJob(t, id, "RUNNING")
	before := lab.Identities(t, "node03")
	out, code := lab.Call(t, "resume", "node03,node03", "node[03-03]")
	if code != 0 || !strings.Contains(out, "unchanged") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code := lab.Call(t, "suspend", "node03"); code == 0 || !strings.Contains(out, "a job runs on it") {
		t.Errorf("suspend of a node with a job: exit code %d\n%s", code, out)
	}
	if diff := cmp.Diff(before, lab.Identities(t, "node03")); diff != "" {
		t.Errorf("the instance changed (-before +after):\n%s", diff)
	}
	if state, err := lab.JobState(id); state != "RUNNING" {
		t.Errorf("the job is %s (%v)", state, err)
	}
	if out, err := lab.Command(cluster.ControlNodeName, "scancel", id).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v\n%s", err, out)
	}
	lab.AwaitQuiet(t)
}

// TestRequestAsSlurmctldStartsIt starts the tool as slurmctld does: without PATH and HOME, with descriptors closed and
// signals blocked.
func TestRequestAsSlurmctldStartsIt(t *testing.T) {
	launcher, err := slurmexec.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tool := lab.Reconfigure(t.Context(), "suspend", "--no-wait", "--reason", t.Name(), "node06")
	cmd := launcher.Command(t.Context(), slurmexec.Options{Conf: "/etc/slurm/slurm.conf"}, tool.Path, tool.Args[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log, err := journal.Open(t.Context(), lab.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	lab.Eventually(t, time.Minute, func() (bool, string) {
		requests, err := log.Requests(t.Context(), 1)
		if err != nil || requests[0].Reason != t.Name() {
			return false, fmt.Sprintf("the newest request is %+v (%v)", requests, err)
		}
		outcome, ended, err := log.Outcome(t.Context(), requests[0].ID)
		return ended && outcome.Code == reconfiguring.CodeDone, fmt.Sprintf("its outcome is %+v (%v)", outcome, err)
	})
}

func TestPersistentNodesAreNotSuspended(t *testing.T) {
	before := lab.Identities(t, "node01")
	if out, code := lab.Call(t, "suspend", "node01"); code == 0 || !strings.Contains(out, "persistent") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if diff := cmp.Diff(before, lab.Identities(t, "node01")); diff != "" {
		t.Errorf("the instance changed (-before +after):\n%s", diff)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return "; " + err.Error()
}
