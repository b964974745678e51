package loss_test

import (
	"fmt"
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
