package attach_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

// rented is what a site has for cloud nodes of other programs. They make no instances.
const rented = `
# rented nodes
ResumeProgram=/usr/local/sbin/rent
SuspendProgram=/usr/local/sbin/return
NodeName=rented[1-2] State=CLOUD
PartitionName=rented Nodes=rented[1-2] SuspendTime=60
`

// TestAnotherResumeProgram attaches to a site that has cloud nodes of other programs. That is refused until the site
// has given these nodes up, as the guide says.
func TestAnotherResumeProgram(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t, cluster.ControlNodeName)
	lab.OnControl(t, "sh", "-c", "set -e; cp -p /etc/slurm/slurm.conf /var/tmp/own; "+
		"for name in rent return; do "+
		"printf '#!/bin/sh\n' >/usr/local/sbin/$name; chmod 0755 /usr/local/sbin/$name; done; "+
		"printf '%s' \""+rented+"\" >>/etc/slurm/slurm.conf; service slurmctld restart; "+
		"until scontrol show partition rented; do sleep 0.2; done")
	with := lab.Sums(t, cluster.ControlNodeName)

	out, code := lab.Call(t, "plan", "attach")
	for _, want := range []string{"ResumeProgram=/usr/local/sbin/rent", "SuspendProgram=/usr/local/sbin/return"} {
		if code != 11 || !strings.Contains(out, want) {
			t.Errorf("plan attach: exit code %d, want 11 and %s:\n%s", code, want, out)
		}
	}
	if out, code := lab.Call(t, "attach"); code == 0 || !strings.Contains(out, "3 errors") {
		t.Errorf("attach: exit code %d:\n%s", code, out)
	}
	lab.AssertUnchanged(t, cluster.ControlNodeName, with, "after the refused attachment")

	// The nodes are powered down, so no job is there.
	lab.OnControl(t, "sh", "-c", "set -e; rm /usr/local/sbin/rent /usr/local/sbin/return; "+
		"mv /var/tmp/own /etc/slurm/slurm.conf; service slurmctld restart; "+
		"until scontrol show node static1; do sleep 0.2; done")
	lab.Do(t, "attach")
	lab.Do(t, "deploy")
	job := lab.Job(t, "--partition=burst", "--wrap=true")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
	lab.EndOwnJob(t, own)
}
