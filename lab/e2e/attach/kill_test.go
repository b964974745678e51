package attach_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

// TestKilledAndRepeated kills attach and detach, with what they started on both hosts, and repeats them. A job of the
// site runs meanwhile. The module that changes slurm.conf has a test that kills it at each of its steps.
func TestKilledAndRepeated(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t, cluster.ControlNodeName)
	const line = "grep -q '^Include eiffel' /etc/slurm/slurm.conf"
	for _, moment := range []string{
		"[ -e /etc/slurm/eiffel/bin/resume.sh ]", "[ -e /etc/slurm/eiffel/work/deploy/stopped ] || " + line, line,
	} {
		kill(t, "attach", moment)
	}
	lab.Do(t, "attach")
	attached := lab.Sums(t, cluster.ControlNodeName)
	lab.Do(t, "attach")
	lab.AssertUnchanged(t, cluster.ControlNodeName, attached, "after one more attach")
	if state := lab.State(t, "node01"); state != "IDLE+CLOUD+POWERED_DOWN" {
		t.Errorf("node01 is %s", state)
	}
	for _, moment := range []string{
		"[ -e /etc/slurm/eiffel/work/deploy ] || ! " + line, "[ ! -e /etc/slurm/eiffel/bin ]",
	} {
		kill(t, "detach", moment)
	}
	lab.Do(t, "detach")
	lab.AssertUnchanged(t, cluster.ControlNodeName, before, "after the detachment")
	lab.OnControl(t, "scontrol", "ping")
	lab.EndOwnJob(t, own)
}

// kill starts a command, and kills it when a condition is true on the control node.
func kill(t *testing.T, command, moment string) {
	t.Helper()
	cmd := lab.Reconfigure(t.Context(), command)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lab.OnControl(t, "timeout", "600", "sh", "-c", "until "+moment+"; do :; done")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lab.Command("ctl", "pkill", "-9", "python3").Run() // there may be none
	if lab.Command("ctl", "scontrol", "ping").Run() != nil {
		t.Logf("slurmctld is stopped since %s was killed when %s", command, moment)
	}
	if cmd.Wait() == nil {
		t.Logf("%s had ended when %s", command, moment)
	}
}
