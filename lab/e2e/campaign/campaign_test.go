package campaign_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// patience returns the time limit of a whole campaign.
func patience() time.Duration {
	n, _ := size()
	return time.Duration(2*n) * time.Minute
}

func await(t *testing.T, what string, is func(reconfigure.Campaign) bool) reconfigure.Campaign {
	t.Helper()
	return lab.AwaitCampaign(t, patience(), what, is)
}

// TestACampaign runs a campaign whose canary detects a bad image, so that the campaign goes back. A second one updates
// all nodes, some of which have jobs, while the worker is killed twice.
func TestACampaign(t *testing.T) {
	n, most := size()
	nodes, batch := harness.Nodes(group(), 1, n), strconv.Itoa(most)
	begin := []string{"update", "--outdated", "--canary", "--batch", batch, "--max-unavailable", batch}
	lab.CatchABadImage(t, patience(), nodes, begin...)
	lab.AwaitQuiet(t)

	lab.PassEachImage(t)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	jobs := []string{lab.Job(t, "--nodelist=node02", harness.Until)}
	for _, node := range nodes[2:] {
		jobs = append(jobs, lab.Job(t, "--nodelist="+node, "--wrap=sleep 40"))
	}
	for _, id := range jobs {
		lab.AwaitJob(t, id, "RUNNING")
	}
	lab.Do(t, begin...)
	await(t, "at its canary", func(c reconfigure.Campaign) bool { return len(c.Open) == 1 })
	lab.KillWorkers(t)
	lab.Do(t, "campaign", "continue") // it is not paused, so this only starts a worker
	await(t, "running", func(c reconfigure.Campaign) bool {
		return c.State == reconfigure.CampaignRunning && len(c.Open) > 0
	})
	lab.KillWorkers(t)
	lab.Do(t, "campaign", "continue")
	if out := lab.Do(t, "status"); !strings.Contains(out, "Campaign 3 over standard is running") {
		t.Errorf("status says\n%s", out)
	}
	// Check now, since slurmctld forgets jobs after five minutes (slurm.conf(5), MinJobAge).
	for _, id := range jobs[1:] {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, jobs[1:]...)
	await(t, "waiting for the last one", func(c reconfigure.Campaign) bool { return c.Done.Len() == n-1 })
	lab.AssertRunning(t, jobs[0])
	lab.LetGo(t, "node02")
	lab.Do(t, "campaign", "--wait")
	c := lab.Campaign(t)
	lab.AwaitJob(t, jobs[0], "COMPLETED")
	lab.AssertNeverRestarted(t, jobs[0])
	if c.State != reconfigure.CampaignDone || c.Done.Len() != n || len(c.Failed) > 0 || !c.Passed("standard") {
		t.Errorf("%+v", c)
	}
	for _, node := range nodes {
		lab.AwaitIdle(t, node)
		if image := lab.ImageOf(t, node); image != cluster.ImageV2 {
			t.Errorf("%s is of image %s", node, image)
		}
	}
	// No request was made twice.
	requests, err := lab.Journal(t).Requests(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	for _, r := range requests {
		if r.Campaign == c.ID {
			asked[r.Nodes.String()]++
		}
	}
	want := map[string]int{}
	for _, node := range nodes {
		want[node] = 1
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests by node (-want +got):\n%s", diff)
	}
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
	lab.AssertNotReserved(t)
}
