// Package loss_test tests on a lab what is lost: workers that are killed in each phase, the disk of the control host, a
// state of Terraform, a control node, and the messages between Slurm and the control host.
package loss_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

var lab harness.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, cluster.Config{
		Name: "loss", Gateway: netip.MustParsePrefix("10.86.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 2), cluster.Group("wide", "w", 0, 5)},
	}, func(d *cluster.Declaration) {
		// The jobs wait during repeated kills of workers.
		d.Slurm.ResumeTimeout = 900
		d.Reconfigure["retries"] = 0 // each failure is final
	}))
}

// runningJob starts a job on a node while no other cloud node has an instance, and waits until it runs and no worker does.
func runningJob(t *testing.T, node string) (job string) {
	t.Helper()
	lab.AwaitQuiet(t)
	job = lab.Job(t, "--nodelist="+node, harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	lab.AwaitNothingWaits(t)
	return job
}
