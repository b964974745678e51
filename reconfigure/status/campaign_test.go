package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestACampaignNeedsAWorker(t *testing.T) {
	c := NewCampaign(reconfigure.Campaign{ID: 3, State: reconfigure.CampaignRunning})
	for leader, want := range map[string]string{
		"": "No worker runs: `reconfigure worker` starts one.", "process 4": "At work: process 4",
	} {
		notes := Report{Campaign: &c, Leader: leader}.notes(Layout{Now: time.Now()})
		if got := notes[len(notes)-1]; got != want {
			t.Errorf("leader %q: %q", leader, got)
		}
	}
}

func TestACampaignInWords(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	c := reconfigure.Campaign{
		ID: 3, State: reconfigure.CampaignPaused, Why: "the canary b1\nfailed", Groups: []string{"a", "b"}, Rollback: 2,
		Caller: "anna", Started: now.Add(-90 * time.Minute), Done: nodeset.Of("a1"),
		Former: map[string]map[string]nodeset.NodeSet{
			"a": {"old": nodeset.Of("a1", "a2"), "older": nodeset.Of("a3")}, "b": {"old": nodeset.Of("b1")},
		},
		Open: map[string]reconfigure.RequestID{"a2": 7}, Failed: map[string]string{"a3": "no SSH"},
		Canaries: []reconfigure.Canary{
			{Group: "a", Node: "a1", Phase: reconfigure.CanaryPassed},
			{Group: "b", Node: "b1", Phase: reconfigure.CanaryFailed, Why: "the test job 4 ended as FAILED"},
		},
	}
	want := []string{
		"Campaign 3 over a, b is paused (the rollback of campaign 2): the canary b1 failed.",
		"It was started 1h30m ago by anna; 4 nodes were outdated then, 1 are updated, 1 are in progress, 1 failed.",
		"Canary a1 of a: passed.",
		"Canary b1 of b: failed: the test job 4 ended as FAILED.",
		"In progress: a2.",
		"Failed: a3: no SSH.",
	}
	got := NewCampaign(c).Words(now)
	if d := cmp.Diff(want, got[:len(got)-1]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !strings.Contains(got[len(got)-1], "reconfigure update --rollback") {
		t.Errorf("the advice is %q", got[len(got)-1])
	}
}

func TestTheEndOfACampaignIsItsExitCode(t *testing.T) {
	failed := map[string]string{"a3": "no SSH"}
	for want, c := range map[string]reconfigure.Campaign{
		"":                            {State: reconfigure.CampaignDone},
		"campaign 3: not updated: a3": {State: reconfigure.CampaignDone, Failed: failed},
		"campaign 3 is paused":        {State: reconfigure.CampaignPaused, Failed: failed},
		"campaign 3 is aborted":       {State: reconfigure.CampaignAborted},
	} {
		c.ID = 3
		said, partial := "", (*CampaignError)(nil)
		if err := NewCampaign(c).Problem(); err != nil {
			said = err.Error()
			if errors.As(err, &partial) != (c.State == reconfigure.CampaignDone) {
				t.Errorf("%s: %T", want, err)
			}
		}
		if said != want {
			t.Errorf("%q, not %q", said, want)
		}
	}
}
