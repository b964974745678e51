// Package appliance_test attaches on a lab to a cluster that is laid out as StackHPC's Slurm appliance lays it out:
// its slurm.conf, configless nodes that its image configures at boot from a share of the control node, and slurmdbd. It
// follows docs/guides/attach-stackhpc.md.
package appliance_test

import (
	"os"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab = existing.Lab{Kind: existing.Appliance}

func TestMain(m *testing.M) {
	os.Exit(lab.FullMain(m, existing.Place{Name: "appliance", Gateway: "10.88.0.1/24"},
		existing.Place{Name: "appliance13", Gateway: "10.89.0.1/24"}))
}

// TestTheAppliance attaches, and has nodes made, made anew and removed, while a job of the site runs. A deploy of the
// appliance in between removes the line of attach, which the next attach writes again.
func TestTheAppliance(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t, cluster.ControlNodeName)
	metadata := lab.ApplianceImage(t, cluster.ImageV2)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.ControlNode.Configure = "image"
		d.NodeGroups[0].Image, d.NodeGroups[0].Metadata = cluster.ImageV2, metadata
	})
	out, code := lab.Call(t, "plan", "attach")
	if code != 0 && code != 12 || strings.Contains(out, "not configless") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	lab.AssertUnchanged(t, cluster.ControlNodeName, before, "after the plan")

	lab.Do(t, "attach")
	lab.AssertRunning(t, own)
	lab.Do(t, "deploy")
	two := lab.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	lab.AwaitJob(t, two, "RUNNING")
	lab.Reimage(t, "node02", two, "node01")
	lab.AssertNeverRestarted(t, two)
	lab.AwaitQuiet(t)

	lab.DeployAppliance(t)
	if _, err := lab.NodeState("node01"); err == nil {
		t.Error("after a deploy of the appliance slurmctld still knows node01")
	}
	lab.Do(t, "attach")
	again := lab.Job(t, "--partition=burst", "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, again, "COMPLETED")
	lab.AwaitQuiet(t)

	lab.DestroyAndDetach(t, before)
	lab.EndOwnJob(t, own)
}
