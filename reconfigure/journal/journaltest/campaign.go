package journaltest

import (
	"errors"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// wholeCampaign has a value in every field except its number.
func wholeCampaign() reconfigure.Campaign {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	return reconfigure.Campaign{
		State: reconfigure.CampaignCanary, Why: "2 of 2 nodes are away", Groups: []string{"gpu", "standard"},
		CampaignLimits: reconfigure.CampaignLimits{
			Batch: 3, MaxUnavailable: 4, PauseOnFailures: 2, DrainTimeout: time.Hour,
		},
		Canary: true,
		Targets: map[string]reconfigure.Spec{
			"gpu": {Group: "gpu", ImageID: "i2", FlavorID: "f", NetworkID: "n"},
		},
		Former:   map[string]map[string]nodeset.NodeSet{"gpu": {"i1": nodeset.Of("gpu1", "gpu2")}},
		Rollback: 7, Reason: "«ü» 'quoted'", Caller: "anna", Started: at, Ended: at.Add(time.Hour),
		Canaries: []reconfigure.Canary{
			{Group: "gpu", Node: "gpu1", Phase: reconfigure.CanaryTest, Why: "no", Since: at.Add(time.Minute)},
		},
		Reserved: "reconfigure_1_1", Attempts: 3, Open: map[string]reconfigure.RequestID{"gpu2": 4}, Done: nodeset.Of("gpu1"),
		Failed: map[string]string{"gpu3": "no SSH"}, Again: nodeset.Of("gpu4"), Postponed: map[string]int{"gpu5": 2},
	}
}

func (j journalRule) start(c reconfigure.Campaign) reconfigure.Campaign {
	j.Helper()
	c, err := j.StartCampaign(j.Context(), c)
	j.noError(err)
	return c
}

func (j journalRule) newestCampaign() reconfigure.Campaign {
	j.Helper()
	c, ok, err := j.Campaign(j.Context())
	if !ok || err != nil {
		j.Fatalf("the campaign: %v, %v", ok, err)
	}
	return c
}

// become returns an update that ignores the previous campaign.
func become(
	c reconfigure.Campaign, requests ...reconfigure.Request,
) func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
	return func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
		return c, requests, nil
	}
}

func updateOf(nodes ...string) reconfigure.Request {
	return reconfigure.Request{
		Mode: reconfigure.Update, Nodes: nodeset.Of(nodes...), Options: reconfigure.Options{Campaign: 1},
	}
}

func (j journalRule) campaignComesBack() {
	if c, ok, err := j.Campaign(j.Context()); ok || err != nil {
		j.Fatalf("a campaign before there is one: %+v, %v", c, err)
	}
	want := wholeCampaign()
	got := j.start(want)
	want.ID = 1
	j.equal("started", want, got)
	j.equal("found", want, j.by(j.setup.Open(j.T)).newestCampaign())
}

func (j journalRule) oneCampaignAtATime() {
	c := j.start(reconfigure.Campaign{State: reconfigure.CampaignPaused})
	if c.Started.IsZero() {
		j.Error("it has no time")
	}
	_, err := j.StartCampaign(j.Context(), wholeCampaign())
	j.wantError(reconfigure.ErrCampaign, err)
	j.equal("found", c, j.newestCampaign())
	c.State, c.Reserved = reconfigure.CampaignAborted, "reconfigure_1_1"
	_, err = j.AdvanceCampaign(j.Context(), c.ID, become(c))
	j.noError(err)
	next := j.start(reconfigure.Campaign{State: reconfigure.CampaignRunning})
	if next.ID <= c.ID || next.Reserved != c.Reserved {
		j.Errorf("%+v follows %+v", next, c)
	}
	_, err = j.AdvanceCampaign(j.Context(), c.ID, become(c))
	j.wantError(reconfigure.ErrNoCampaign, err)
	j.equal("found", next, j.newestCampaign())
}

func (j journalRule) campaignSubmits() {
	c := j.start(wholeCampaign())
	c.Why = ""
	submitted, err := j.AdvanceCampaign(j.Context(), c.ID, become(c, updateOf("n1"), updateOf("n2")))
	j.noError(err)
	pending := j.pending()
	j.equal("pending", submitted, pending)
	if len(pending) != 2 || pending[0].Campaign != 1 {
		j.Fatalf("pending: %+v", pending)
	}
	c.Open = map[string]reconfigure.RequestID{"gpu2": 4, "n1": pending[0].ID, "n2": pending[1].ID}
	j.equal("the campaign", c, j.newestCampaign())
}

func (j journalRule) campaignAllOrNone() {
	c := j.start(wholeCampaign())
	changed := c
	changed.Why = "another"
	nameless := updateOf("n2")
	nameless.Mode = ""
	if _, err := j.AdvanceCampaign(j.Context(), c.ID, become(changed, updateOf("n1"), nameless)); err == nil {
		j.Error("a request without a mode was submitted")
	}
	no := errors.New("no")
	_, err := j.AdvanceCampaign(j.Context(), c.ID,
		func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
			return changed, []reconfigure.Request{updateOf("n1")}, no
		})
	j.wantError(no, err)
	j.equal("the campaign", c, j.newestCampaign())
	j.equal("pending", []reconfigure.Request(nil), j.pending())
}

func (j journalRule) campaignIsFenced() {
	c := j.start(wholeCampaign())
	release := j.acquire()
	defer func() { _ = release() }() // an error says that it was lost
	j.setup.Lose(j.T)
	_, err := j.AdvanceCampaign(j.Context(), c.ID, become(c, updateOf("n1")))
	j.wantError(reconfigure.ErrLeaseLost, err)
	j.equal("pending", []reconfigure.Request(nil), j.pending())
}

func (j journalRule) campaignIsAChange() {
	before := j.token()
	other := j.by(j.setup.Open(j.T))
	c := other.start(wholeCampaign())
	started := j.token()
	_, err := other.AdvanceCampaign(j.Context(), c.ID, become(c))
	j.noError(err)
	if advanced := j.token(); before == started || started == advanced {
		j.Errorf("tokens %d, %d, %d", before, started, advanced)
	}
}
