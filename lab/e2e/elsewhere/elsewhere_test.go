// Package elsewhere_test attaches on a lab to a cluster whose Slurm is not where packages put it: slurm.conf and the
// commands are below /opt/slurm, SlurmUser has another uid than on the nodes' image, the site's node is configless, and
// on Debian 12 there is a backup slurmctld.
package elsewhere_test

import (
	"os"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab = existing.Lab{Kind: existing.Elsewhere}

func TestMain(m *testing.M) {
	os.Exit(lab.FullMain(m, existing.Place{Name: "elsewhere", Gateway: "10.85.0.1/24"},
		existing.Place{Name: "elsewhere13", Gateway: "10.87.0.1/24"}))
}

// TestAttachAndDetach attaches while a job of the site runs, which runs until after the detachment. In between, two
// nodes come and go, one of them anew.
func TestAttachAndDetach(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	hosts := []string{cluster.ControlNodeName}
	if lab.HasBackup() {
		hosts = append(hosts, existing.Backup)
	}
	before := map[string]string{}
	for _, host := range hosts {
		before[host] = lab.Sums(t, host)
	}
	unchanged := func(when string) {
		t.Helper()
		for _, host := range hosts {
			lab.AssertUnchanged(t, host, before[host], when)
		}
	}

	out, code := lab.Call(t, "plan", "attach")
	warned := strings.Contains(out, "there is a backup slurmctld")
	if code != 12 || warned != lab.HasBackup() || strings.Contains(out, "not configless") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	unchanged("after the plan")
	lab.Do(t, "attach")
	lab.AssertRunning(t, own)
	if out := lab.Do(t, "deploy"); strings.Contains(out, "failed") {
		t.Errorf("deploy:\n%s", out)
	}

	two := lab.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	lab.AwaitJob(t, two, "RUNNING")
	for _, host := range []string{"node01", cluster.ControlNodeName} {
		if uid := lab.On(t, host, "id", "-u", "slurm"); uid != "981" {
			t.Errorf("SlurmUser has the uid %s on %s", uid, host)
		}
	}
	if out := lab.Do(t, "status"); !strings.Contains(out, "node01") {
		t.Errorf("status:\n%s", out)
	}
	lab.Reimage(t, "node02", two, "node01")
	lab.AssertNeverRestarted(t, two)
	lab.AwaitQuiet(t)

	lab.Do(t, "detach")
	unchanged("after the detachment")
	if _, err := lab.NodeState("node01"); err == nil {
		t.Error("slurmctld still knows node01")
	}
	lab.EndOwnJob(t, own)
}
