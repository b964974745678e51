package loss_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// silencePatience is the time limit for Slurm to set a node DOWN whose slurmd does not answer.
const silencePatience = 6 * time.Minute

// shortenSlurmdTimeout has slurmctld set a node DOWN whose slurmd does not answer for 20 seconds, not for 300.
// The returned function ends this.
func shortenSlurmdTimeout(t *testing.T) (end func()) {
	t.Helper()
	const conf = "/etc/slurm/slurm.conf"
	lab.AwaitQuiet(t)
	change := func(command string) { lab.OnControl(t, "sh", "-c", command+" && scontrol reconfigure") }
	end = sync.OnceFunc(func() { change("sed -i '/# of the test$/d' " + conf) })
	t.Cleanup(end)
	change("echo 'SlurmdTimeout=20 # of the test' >>" + conf)
	return end
}

// TestARestartOfTheHypervisorLeavesNoPersistentNodeDown boots a persistent node without a request. Its slurmd does not
// start at boot; reconcile starts it.
func TestARestartOfTheHypervisorLeavesNoPersistentNodeDown(t *testing.T) {
	end := shortenSlurmdTimeout(t)
	server, _ := lab.Server("node01")
	if err := lab.Host.Reboot(t.Context(), server.ID, true); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, silencePatience, func() (bool, string) {
		state, err := lab.NodeState("node01")
		reason, _ := lab.NodeReason("node01")
		return state == "DOWN+NOT_RESPONDING" && strings.HasPrefix(reason, "Not responding"),
			fmt.Sprintf("node01 is %s, %q (%v)", state, reason, err)
	})
	end()
	before := lab.Identities(t, "node01")["node01"]
	said := lab.Do(t, "reconcile", "--fix", "--recheck", "0s")
	if !strings.Contains(said, "silent: ") {
		t.Errorf("reconcile said\n%s", said)
	}
	lab.AwaitIdle(t, "node01")
	if now := lab.Identities(t, "node01")["node01"]; now != before {
		t.Errorf("node01 was %+v, and is %+v: it must not boot", before, now)
	}
	lab.AssertAllIsWell(t)
}

// TestARebootThatNoControlHostAcceptsIsRepeated makes an administrator reboot a node by Slurm while the control host is
// unreachable. Slurm's script gives up and drains the node; reconcile repeats the reboot.
func TestARebootThatNoControlHostAcceptsIsRepeated(t *testing.T) {
	if err := lab.StopControlHost(); err != nil {
		t.Fatal(err)
	}
	before := lab.Identities(t, "node01")["node01"]
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "node01")
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		reason, err := lab.NodeReason("node01")
		return strings.HasPrefix(reason, "reconfigure: control host "), fmt.Sprintf("node01: %q (%v)", reason, err)
	})
	if err := lab.StartControlHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := lab.Do(t, "reconcile", "--fix", "--recheck", "0s"); !strings.Contains(said, "drained: ") {
		t.Errorf("reconcile said\n%s", said)
	}
	if after := lab.AwaitRenewed(t, "node01", before); after.ID != before.ID {
		t.Errorf("node01 was %+v, and is %+v", before, after)
	}
	lab.AssertAllIsWell(t)
}

// TestNodesThatSlurmGivesToNoJobAreHandedBack brings three powered down nodes into states in which power saving can be
// left, and in which Slurm gives them to no job: it does not respond, as after a ping that a removed node did not answer;
// it did not come up in time, and nothing powered it down; and it has a drain of ours.
func TestNodesThatSlurmGivesToNoJobAreHandedBack(t *testing.T) {
	lab.AwaitQuiet(t)
	for node, update := range map[string][]string{
		"w01": {"state=noresp"},
		"w02": {"state=down", "reason=ResumeTimeout reached"},
		"w03": {"state=drain", "reason=reconfigure: no control host accepted the request"},
	} {
		lab.OnControl(t, append([]string{"scontrol", "update", "nodename=" + node}, update...)...)
	}
	lab.OnControl(t, "service", "slurmctld", "restart")
	forgotten := map[string]string{"w01": "NOT_RESPONDING", "w02": "DOWN", "w03": "DRAIN"}
	var jobs []string
	for _, node := range slices.Sorted(maps.Keys(forgotten)) {
		lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
			state, err := lab.NodeState(node)
			words := strings.Split(state, "+")
			return slices.Contains(words, forgotten[node]) && slices.Contains(words, "POWERED_DOWN"),
				fmt.Sprintf("%s is %s (%v)", node, state, err)
		})
		jobs = append(jobs, lab.Job(t, "--nodelist="+node, "--wrap=true"))
	}
	for _, job := range jobs {
		lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
			reason, err := lab.JobField(job, "Reason")
			return strings.Contains(reason, "Nodes_required_for_job_are_DOWN") || strings.Contains(reason, "ReqNodeNotAvail"),
				fmt.Sprintf("job %s waits for %s (%v)", job, reason, err)
		})
	}
	said, _ := lab.Call(t, "reconcile", "--fix", "--recheck", "0s")
	if strings.Count(said, "forgotten: ") != len(forgotten) {
		t.Errorf("reconcile said\n%s", said)
	}
	for _, job := range jobs {
		lab.Hurry(t, job)
		lab.AwaitJob(t, job, "COMPLETED")
	}
	lab.AwaitQuiet(t)
	lab.AssertAllIsWell(t)
}
