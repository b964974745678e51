// Package attachtutorial_test types docs/start/attach.md on a lab with a cluster that somebody else has made, from a
// control host on which nothing is installed.
package attachtutorial_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

var lab = existing.Lab{Machine: true}

func TestMain(m *testing.M) {
	os.Exit(lab.FullMain(m, existing.Place{Name: "attachtut", Gateway: "10.90.0.1/24"},
		existing.Place{Name: "attachtut13", Gateway: "10.91.0.1/24"}))
}

// host is the name of the control node on the page.
const host = "slurm.example.org"

// TestFromAptInstallToTheFirstElasticJob follows the page while a job of the site runs, and measures the time to the
// first job on the new nodes.
func TestFromAptInstallToTheFirstElasticJob(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := lab.Sums(t)
	control, _ := lab.Server(cluster.ControlNodeName)
	name := fmt.Sprintf("echo %s %s >>/etc/hosts", control.Addresses[0], host)
	if out, err := lab.OnControlHostAsRoot("sh", "-c", name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.ControlNode.Existing = host })
	follow := func(sections ...string) {
		t.Helper()
		for _, section := range sections {
			if err := lab.Follow(t.Context(), cluster.AttachTutorial, section); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := time.Now()
	follow("Look", "Attach", "Run a job")
	took := time.Since(begun) + lab.Installation
	t.Attr("measured", fmt.Sprintf("%.1f min, of which %.1f min are the installation", took.Minutes(),
		lab.Installation.Minutes()))
	t.Logf("from apt install to the first elastic job: %s, of which the installation took %s", took, lab.Installation)

	follow("Detach")
	before.AssertUnchanged(t, "after the detachment")
	lab.EndOwnJob(t, own)
}
