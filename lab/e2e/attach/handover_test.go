package attach_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// rented is what a site has for cloud nodes of other programs, which make no instances.
const rented = `
# rented nodes
ResumeProgram=/usr/local/sbin/rent
SuspendProgram=/usr/local/sbin/return
NodeName=node[01-02] State=CLOUD
PartitionName=burst Nodes=node[01-02] SuspendTime=60
`

// TestAnotherResumeProgram attaches to a site whose cloud nodes have other programs. That is refused until the site has
// given these nodes up, as docs/guides/attach.md says. Then the nodes are handed over with their names and partition.
func TestAnotherResumeProgram(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t)
	lab.OnControl(t, "sh", "-c", "set -e; cp -p /etc/slurm/slurm.conf /var/tmp/own; "+
		"for name in rent return; do "+
		"printf '#!/bin/sh\n' >/usr/local/sbin/$name; chmod 0755 /usr/local/sbin/$name; done; "+
		"printf '%s' \""+rented+"\" >>/etc/slurm/slurm.conf; service slurmctld restart; "+
		"until scontrol show partition burst; do sleep 0.2; done")
	with := lab.Sums(t)

	out, code := lab.Call(t, "plan", "attach")
	for _, want := range []string{"ResumeProgram=/usr/local/sbin/rent", "SuspendProgram=/usr/local/sbin/return"} {
		if code != 11 || !strings.Contains(out, want) {
			t.Errorf("plan attach: exit code %d, want 11 and %s:\n%s", code, want, out)
		}
	}
	if out, code := lab.Call(t, "attach"); code != 11 {
		t.Errorf("attach: exit code %d:\n%s", code, out)
	}
	with.AssertUnchanged(t, "after the refused attachment")

	lab.OnControl(t, "scontrol", "update", "partitionname=burst", "state=down")
	lab.OnControl(t, "scontrol", "update", "nodename=node[01-02]", "state=power_down")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		said := lab.OnControl(t, "sinfo", "--noheader", "--nodes=node[01-02]", "--format=%t")
		return said == "idle~" || said == "", "the nodes are " + said // see docs/guides/attach.md
	})
	lab.OnControl(t, "sh", "-c", "set -e; rm /usr/local/sbin/rent /usr/local/sbin/return; "+
		"mv /var/tmp/own /etc/slurm/slurm.conf; service slurmctld restart; "+
		"until scontrol show node static1; do sleep 0.2; done")
	lab.EndOwnJob(t, own)
	before.AssertUnchanged(t, "after the nodes were given up")
	// So the package's other tests are of this cluster, too.
	lab.AttachAndDetach(t)
}
