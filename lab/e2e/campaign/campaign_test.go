package campaign_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

func campaign(t *testing.T) reconfigure.Campaign {
	t.Helper()
	out, err := lab.Reconfigure(t.Context(), "--json", "campaign").Output()
	if err != nil {
		t.Fatal(err)
	}
	var c reconfigure.Campaign
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c
}

// await waits until the campaign is as it should be.
func await(t *testing.T, what string, is func(reconfigure.Campaign) bool) reconfigure.Campaign {
	t.Helper()
	var c reconfigure.Campaign
	lab.Eventually(t, patience(), func() (bool, string) {
		c = campaign(t)
		return is(c), fmt.Sprintf("the campaign is not %s: %+v\n%s", what, c, lab.WorkerLogs())
	})
	return c
}

func imageOf(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(lab.On(t, node, "cat", "/etc/image-release"))
}

// reservations returns the names of Slurm's.
func reservations(t *testing.T) string {
	t.Helper()
	return lab.OnControl(t, "scontrol", "--oneliner", "show", "reservation")
}

// TestACampaign has a bad image caught by the canary, goes back, and then updates all nodes, some of which have jobs,
// while the worker is killed twice.
func TestACampaign(t *testing.T) {
	n, most := size()
	nodes, batch := harness.Nodes(group(), 1, n), strconv.Itoa(most)
	begin := []string{"update", "--outdated", "--canary", "--batch", batch, "--max-unavailable", batch}
	before := lab.Identities(t, nodes...)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	said := lab.Do(t, begin...)
	if !strings.Contains(said, strconv.Itoa(n)+" nodes were outdated then") {
		t.Errorf("it says\n%s", said)
	}
	if out, code := lab.Call(t, "update", "--outdated"); code == 0 {
		t.Errorf("a second campaign was started:\n%s", out)
	}
	reserved := await(t, "tested", func(c reconfigure.Campaign) bool { return len(c.Canaries) > 0 && len(c.Open) > 0 })
	if !strings.Contains(reservations(t), "ReservationName="+reserved.Reserved) {
		t.Errorf("the canary is not reserved: %s", reservations(t))
	}
	c := await(t, "paused", func(c reconfigure.Campaign) bool { return c.State == reconfigure.CampaignPaused })
	canary := c.Canaries[0].Node
	if !strings.Contains(c.Why, "the canary "+canary+" failed: the test job ") || !strings.Contains(c.Why, "FAILED") {
		t.Errorf("it is paused, since %s", c.Why)
	}
	if log := lab.On(t, canary, "cat", "/tmp/reconfigure_1_1.log"); !strings.Contains(log, canary) {
		t.Errorf("the output of the test: %q", log)
	}
	if reason := lab.Reason(t, canary); !strings.HasPrefix(reason, "reconfigure: canary of campaign 1: ") {
		t.Errorf("%s is %s: %q", canary, lab.State(t, canary), reason)
	}
	if image := imageOf(t, canary); image != cluster.ImageV2 {
		t.Errorf("the canary is of image %s", image)
	}
	var others []string
	for _, node := range nodes {
		if node != canary {
			others = append(others, node)
		}
	}
	untouched := func() {
		t.Helper()
		after := lab.Identities(t, others...)
		for node, is := range after {
			if diff := cmp.Diff(before[node], is); diff != "" {
				t.Errorf("%s was touched (-before +after):\n%s", node, diff)
			}
		}
	}
	untouched()

	lab.Do(t, "update", "--rollback")
	text, err := os.ReadFile(filepath.Join(lab.Site, "group_vars", "all.yml"))
	if err != nil || !strings.Contains(string(text), `image: "`+before[canary].Image+`"`) {
		t.Errorf("the declaration does not have the former image %s (%v):\n%s", before[canary].Image, err, text)
	}
	await(t, "done", func(c reconfigure.Campaign) bool { return c.State == reconfigure.CampaignDone && c.ID == 2 })
	lab.AwaitIdle(t, canary)
	if image := imageOf(t, canary); image != cluster.ImageV1 {
		t.Errorf("after the rollback the canary is of image %s", image)
	}
	untouched()
	lab.AwaitQuiet(t)
	if left := reservations(t); strings.Contains(left, "reconfigure") {
		t.Errorf("reservations are left: %s", left)
	}
	lab.AssertTerraformIsClean(t)

	// Now the image is a good one, as a deploy would say.
	lab.OnControl(t, "sh", "-c", "printf '#!/bin/sh\\nhostname\\n' >/usr/local/libexec/reconfigure/canary.sh")
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
	lab.Do(t, "campaign", "continue") // it is not paused, so this does no more than to start a worker
	await(t, "running", func(c reconfigure.Campaign) bool {
		return c.State == reconfigure.CampaignRunning && len(c.Open) > 0
	})
	lab.KillWorkers(t)
	lab.Do(t, "campaign", "continue")
	if out := lab.Do(t, "status"); !strings.Contains(out, "Campaign 3 over standard is running") {
		t.Errorf("status says\n%s", out)
	}
	// Now, since slurmctld forgets them after five minutes (slurm.conf(5), MinJobAge).
	for _, id := range jobs[1:] {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, jobs[1:]...)
	await(t, "waiting for the last one", func(c reconfigure.Campaign) bool { return c.Done.Len() == n-1 })
	lab.AssertRunning(t, jobs[0])
	lab.LetGo(t, "node02")
	lab.Do(t, "campaign", "--wait")
	c = campaign(t)
	lab.AwaitJob(t, jobs[0], "COMPLETED")
	lab.AssertNeverRestarted(t, jobs[0])
	if c.State != reconfigure.CampaignDone || c.Done.Len() != n || len(c.Failed) > 0 || !c.Passed("standard") {
		t.Errorf("%+v", c)
	}
	for _, node := range nodes {
		lab.AwaitIdle(t, node)
		if image := imageOf(t, node); image != cluster.ImageV2 {
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
	if left := reservations(t); strings.Contains(left, "reconfigure") {
		t.Errorf("reservations are left: %s", left)
	}
}
