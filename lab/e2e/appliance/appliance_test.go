// Package appliance_test attaches on a lab to a cluster that is laid out as StackHPC's Slurm appliance lays it out:
// its slurm.conf, configless nodes that its image configures at boot from a share of the control node, and slurmdbd. It
// follows docs/guides/attach-stackhpc.md.
package appliance_test

import (
	"os"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

var lab = existing.Lab{Kind: existing.Appliance}

func TestMain(m *testing.M) {
	os.Exit(lab.FullMain(m, existing.Place{Name: "appliance", Gateway: "10.88.0.1/24"},
		existing.Place{Name: "appliance13", Gateway: "10.89.0.1/24"}))
}

func TestAttachAndDetach(t *testing.T) {
	generation.OnlyFull(t)
	lab.AttachAndDetach(t)
}

func TestKilledAndRepeated(t *testing.T) { lab.KilledAndRepeated(t) }

func TestTheStaticNodeIsAdopted(t *testing.T) { lab.TheStaticNodeIsAdopted(t) }

func TestAdoptedServersAreUsedAndReplaced(t *testing.T) { lab.AdoptedServersAreUsedAndReplaced(t) }

// TestTheApplianceIsDeployedAgain has a deploy of the appliance remove the line of attach. The next attach writes it
// again.
func TestTheApplianceIsDeployedAgain(t *testing.T) {
	generation.OnlyFull(t)
	before := lab.Sums(t)
	if out, _ := lab.Call(t, "plan", "attach"); strings.Contains(out, "not configless") {
		t.Errorf("plan attach:\n%s", out)
	}
	lab.Do(t, "attach")
	lab.Do(t, "deploy")
	lab.DeployAppliance(t)
	if _, err := lab.NodeState("node01"); err == nil {
		t.Error("after a deploy of the appliance slurmctld still knows node01")
	}
	lab.Do(t, "attach")
	job := lab.Job(t, "--partition=burst", "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
}
