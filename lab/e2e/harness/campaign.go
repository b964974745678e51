package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// DeclareABadImage makes the test job of campaigns fail on the second image, until [Lab.PassEachImage] is called.
func DeclareABadImage(d *cluster.Declaration) {
	d.Reconfigure["canary_job"] = "hostname; ! grep -q " + cluster.ImageV2 + " /etc/image-release"
	d.Reconfigure["canary_minutes"] = 1
}

// PassEachImage makes the test job succeed on each image, as a deploy would.
func (l *Lab) PassEachImage(t *testing.T) {
	t.Helper()
	l.OnControl(t, "sh", "-c", "printf '#!/bin/sh\nhostname\n' >/usr/local/libexec/reconfigure/canary.sh")
}

// Campaign returns the last campaign.
func (l *Lab) Campaign(t *testing.T) reconfigure.Campaign {
	t.Helper()
	out, err := l.Reconfigure(t.Context(), "--json", "campaign").Output()
	if err != nil {
		t.Fatal(err)
	}
	var c reconfigure.Campaign
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c
}

// AwaitCampaign waits until a condition holds for the last campaign.
func (l *Lab) AwaitCampaign(t *testing.T, patience time.Duration, what string,
	is func(reconfigure.Campaign) bool) (c reconfigure.Campaign) {
	t.Helper()
	l.Eventually(t, patience, func() (bool, string) {
		c = l.Campaign(t)
		return is(c), fmt.Sprintf("the campaign is not %s: %+v\n%s", what, c, l.WorkerLogs())
	})
	return c
}

// ImageOf returns the name of the image that a node's disk was made from.
func (l *Lab) ImageOf(t *testing.T, node string) string {
	t.Helper()
	return l.On(t, node, "cat", "/etc/image-release")
}

// reservations returns the reservations in Slurm.
func (l *Lab) reservations(t *testing.T) string {
	t.Helper()
	return l.OnControl(t, "scontrol", "--oneliner", "show", "reservation")
}

// AssertNotReserved checks that no reservation of ours is left.
func (l *Lab) AssertNotReserved(t *testing.T) {
	t.Helper()
	if left := l.reservations(t); strings.Contains(left, "reconfigure") {
		t.Errorf("reservations are left: %s", left)
	}
}

// CatchABadImage runs a campaign over nodes that all have the first image. It tests the second image on its canary,
// where it fails, and the canary goes back to the first. The other nodes must not be touched. begin is the command that
// starts the campaign.
func (l *Lab) CatchABadImage(t *testing.T, patience time.Duration, nodes []string, begin ...string) {
	t.Helper()
	before := l.Identities(t, nodes...)
	l.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	said := l.Do(t, begin...)
	if !strings.Contains(said, fmt.Sprintf("%d nodes were outdated then", len(nodes))) {
		t.Errorf("it says\n%s", said)
	}
	// A user's job with the name of the test. It stays pending: a campaign that mistook it for its own test would
	// wait for it.
	namesake := l.Job(t, "--hold", fmt.Sprintf("--job-name=reconfigure_%d_1", l.Campaign(t).ID), "--wrap=true")
	if out, code := l.Call(t, "update", "--outdated"); code == 0 {
		t.Errorf("a second campaign was started:\n%s", out)
	}
	reserved := l.AwaitCampaign(t, patience, "tested", func(c reconfigure.Campaign) bool {
		return len(c.Canaries) > 0 && len(c.Open) > 0
	})
	if all := l.reservations(t); !strings.Contains(all, "ReservationName="+reserved.Reserved) {
		t.Errorf("the canary is not reserved: %s", all)
	}
	c := l.AwaitCampaign(t, patience, "paused", func(c reconfigure.Campaign) bool {
		return c.State == reconfigure.CampaignPaused
	})
	canary := c.Canaries[0].Node
	if !strings.Contains(c.Why, "the canary "+canary+" failed: the test job ") || !strings.Contains(c.Why, "FAILED") {
		t.Errorf("it is paused, since %s", c.Why)
	}
	if log := l.On(t, canary, "cat", fmt.Sprintf("/tmp/reconfigure_%d_1.log", c.ID)); !strings.Contains(log, canary) {
		t.Errorf("the output of the test: %q", log)
	}
	prefix := fmt.Sprintf("reconfigure: canary of campaign %d: ", c.ID)
	if reason := l.Reason(t, canary); !strings.HasPrefix(reason, prefix) {
		t.Errorf("%s is %s: %q", canary, l.State(t, canary), reason)
	}
	if image := l.ImageOf(t, canary); image != cluster.ImageV2 {
		t.Errorf("the canary is of image %s", image)
	}
	if state, err := l.JobState(namesake); state != "PENDING" {
		t.Errorf("the user's job %s is %s (%v)", namesake, state, err)
	}
	l.OnControl(t, "scancel", namesake)
	untouched := func() {
		t.Helper()
		after := l.Identities(t, nodes...)
		after[canary] = before[canary]
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("other nodes were touched (-before +after):\n%s", diff)
		}
	}
	untouched()

	l.Do(t, "update", "--rollback")
	text, err := os.ReadFile(filepath.Join(l.Site, "group_vars", "all.yml"))
	if err != nil || !strings.Contains(string(text), `image: "`+before[canary].Image+`"`) {
		t.Errorf("the declaration does not have the former image %s (%v):\n%s", before[canary].Image, err, text)
	}
	l.AwaitCampaign(t, patience, "done", func(back reconfigure.Campaign) bool {
		return back.State == reconfigure.CampaignDone && back.ID == c.ID+1
	})
	l.AwaitIdle(t, canary)
	if image := l.ImageOf(t, canary); image != cluster.ImageV1 {
		t.Errorf("after the rollback the canary is of image %s", image)
	}
	untouched()
	l.AwaitNothingWaits(t)
	l.AssertNotReserved(t)
	l.AssertTerraformIsClean(t)
}
