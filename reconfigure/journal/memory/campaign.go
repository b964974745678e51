package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// StartCampaign stores a campaign, unless another one has not ended.
func (j *Journal) StartCampaign(ctx context.Context, c reconfigure.Campaign) (reconfigure.Campaign, error) {
	err := j.write(ctx, func() error {
		if n := len(j.campaigns); n > 0 {
			last := j.campaigns[n-1]
			if !last.Ends() {
				return fmt.Errorf("campaign %s: %w", last.ID, reconfigure.ErrCampaign)
			}
			c.Reserved = cmp.Or(c.Reserved, last.Reserved)
		}
		c.ID, c.Started = reconfigure.CampaignID(len(j.campaigns)+1), stamped(c.Started)
		j.campaigns = append(j.campaigns, c.Clone())
		return nil
	})
	if err != nil {
		return reconfigure.Campaign{}, err
	}
	return c, nil
}

// Campaign returns the newest campaign; false if there was none.
func (j *Journal) Campaign(ctx context.Context) (c reconfigure.Campaign, ok bool, err error) {
	err = j.access(ctx, func() error {
		if n := len(j.campaigns); n > 0 {
			c, ok = j.campaigns[n-1].Clone(), true
		}
		return nil
	})
	return c, ok, err
}

// AdvanceCampaign replaces the newest campaign and submits its requests, all or nothing.
func (j *Journal) AdvanceCampaign(
	ctx context.Context, id reconfigure.CampaignID,
	update func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error),
) (submitted []reconfigure.Request, err error) {
	err = j.writeHeld(ctx, func() error {
		n := len(j.campaigns)
		if n == 0 || j.campaigns[n-1].ID != id {
			return fmt.Errorf("campaign %s: %w", id, reconfigure.ErrNoCampaign)
		}
		is, requests, err := update(j.campaigns[n-1].Clone())
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(requests, func(r reconfigure.Request) bool { return r.Mode == "" }); i >= 0 {
			_, err := j.insert(requests[i])
			return err
		}
		is.ID = id
		for _, r := range requests {
			r, err := j.insert(r)
			if err != nil {
				return err
			}
			is, submitted = is.Submitted(r), append(submitted, r)
		}
		j.campaigns[n-1] = is.Clone()
		return nil
	})
	return submitted, err
}
