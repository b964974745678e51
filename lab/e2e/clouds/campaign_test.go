package clouds_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestCampaign(t *testing.T) {
	scenario(t, "a campaign reimages the cluster: its canary catches a bad image; a good one waits for a job")
	job := lab.Job(t, "--nodelist=node02", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	nodes, begin := []string{"node01", "node02"}, []string{"update", "--outdated", "--canary"}
	declared := lab.Declaration
	lab.CatchABadImage(t, harness.UpdatePatience, nodes, begin...)
	lab.AssertRunning(t, job)

	lab.PassEachImage(t)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	lab.Do(t, begin...)
	lab.AwaitCampaign(t, harness.UpdatePatience, "waiting for the job", func(c reconfigure.Campaign) bool {
		return c.Done.Len() == 1
	})
	lab.AssertRunning(t, job)
	lab.LetGo(t, "node02")
	lab.Do(t, "campaign", "--wait")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	if c := lab.Campaign(t); c.State != reconfigure.CampaignDone || c.Done.Len() != 2 || len(c.Failed) > 0 {
		t.Errorf("%+v", c)
	}
	if image := lab.ImageOf(t, "node01"); image != cluster.ImageV2 {
		t.Errorf("node01 is of image %s", image)
	}
	lab.AssertNotReserved(t)

	check(t, lab.Declare(declared))
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	awaitPeace(t)
}
