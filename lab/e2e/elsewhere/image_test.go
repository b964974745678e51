package elsewhere_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestNodesThatTheirImageConfigures has an image whose nodes join the site at boot. At first it is broken: the job of a
// node that does not register is requeued. A reboot by Slurm makes a node anew.
func TestNodesThatTheirImageConfigures(t *testing.T) {
	generation.OnlyFull(t)
	before := lab.Sums(t)
	repair := lab.JoinByImage(t, cluster.ImageV2)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.ControlNode.Configure, d.NodeGroups[0].Image = "image", cluster.ImageV2
	})
	lab.Do(t, "attach")
	lab.Do(t, "deploy")

	job := lab.Job(t, "--partition=burst", "--nodelist=node01", "--wrap=true")
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		said, _ := lab.Call(t, "explain", "node01")
		_, there := lab.Server("node01")
		return strings.Contains(said, "slurmd did not register in time") && !there, said
	})
	repair()
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		lab.Hurry(t, job)
		state, err := lab.JobState(job)
		return err == nil && state == "COMPLETED", "job is " + state
	})

	two := lab.Job(t, "--partition=burst", "--nodes=2", harness.Until)
	lab.AwaitJob(t, two, "RUNNING")
	lab.Reimage(t, "node02", two, "node01")
	lab.AssertNeverRestarted(t, two)
	lab.AwaitQuiet(t)
	lab.DestroyAndDetach(t, before)
}
