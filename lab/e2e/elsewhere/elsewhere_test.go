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

func TestAttachAndDetach(t *testing.T) {
	generation.OnlyFull(t)
	lab.AttachAndDetach(t)
}

func TestKilledAndRepeated(t *testing.T) { lab.KilledAndRepeated(t) }

func TestTheStaticNodeIsAdopted(t *testing.T) { lab.TheStaticNodeIsAdopted(t) }

func TestAdoptedServersAreUsedAndReplaced(t *testing.T) { lab.AdoptedServersAreUsedAndReplaced(t) }

// TestTheSiteIsRecognized checks what the plan says of the site, and that SlurmUser has the site's uid on a new node.
func TestTheSiteIsRecognized(t *testing.T) {
	generation.OnlyFull(t)
	before := lab.Sums(t)
	out, code := lab.Call(t, "plan", "attach")
	warned := strings.Contains(out, "there is a backup slurmctld")
	if code != 12 || warned != lab.HasBackup() || strings.Contains(out, "not configless") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	lab.Do(t, "attach")
	lab.Do(t, "deploy")
	job := lab.Job(t, "--partition=burst", "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	for _, host := range []string{"node01", cluster.ControlNodeName} {
		if uid := lab.On(t, host, "id", "-u", "slurm"); uid != "981" {
			t.Errorf("SlurmUser has the uid %s on %s", uid, host)
		}
	}
	lab.LetGo(t, "node01")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
}
