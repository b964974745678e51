package journal

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// newestCampaign selects the current campaign.
const newestCampaign = `SELECT id, known FROM campaigns ORDER BY id DESC LIMIT 1`

// StartCampaign writes a campaign and returns it with its number, and with the current time if it has none. While
// another campaign has not ended, it writes nothing and returns ErrCampaign. The new campaign takes over a
// reservation in Slurm that the last one left.
func (j *Journal) StartCampaign(ctx context.Context, c reconfigure.Campaign) (reconfigure.Campaign, error) {
	c.Started, c.Reason, c.Caller = stamp(c.Started), text(c.Reason), text(c.Caller)
	err := j.write(ctx, "start a campaign", func(tx *sql.Tx) error {
		last, err := scanCampaign(tx.QueryRowContext(ctx, newestCampaign))
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		case err == nil && !last.Ends():
			return fmt.Errorf("campaign %s: %w", last.ID, reconfigure.ErrCampaign)
		}
		c.Reserved = cmp.Or(c.Reserved, last.Reserved)
		insert := `INSERT INTO campaigns (known) VALUES ($1) RETURNING id`
		known, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, insert, string(known)).Scan(&c.ID)
	})
	if err != nil {
		return reconfigure.Campaign{}, err
	}
	return c, nil
}

// Campaign returns the newest campaign; false if there was none.
func (j *Journal) Campaign(ctx context.Context) (reconfigure.Campaign, bool, error) {
	return first(read(ctx, j, "read the campaign", scanCampaign, newestCampaign))
}

// AdvanceCampaign replaces the newest campaign by the result of update, and submits the requests, which become open
// requests of the campaign, in one transaction: after a crash both exist or neither. It returns the requests with
// their IDs. If the newest campaign has another number, it returns ErrNoCampaign; on an error of update it returns
// that error, and writes nothing. Only the holder of the lease may call it (ErrLeaseLost), or a process that acquired
// no lease, such as an administrator's call that pauses a campaign. Update must not use the journal.
func (j *Journal) AdvanceCampaign(
	ctx context.Context, id reconfigure.CampaignID,
	update func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error),
) (submitted []reconfigure.Request, err error) {
	err = j.writeHeld(ctx, "advance a campaign", func(tx *sql.Tx) error {
		was, err := scanCampaign(tx.QueryRowContext(ctx, newestCampaign))
		if errors.Is(err, sql.ErrNoRows) || err == nil && was.ID != id {
			return fmt.Errorf("campaign %s: %w", id, reconfigure.ErrNoCampaign)
		}
		if err != nil {
			return err
		}
		is, requests, err := update(was)
		if err != nil {
			return err
		}
		is.ID = was.ID
		submitted = nil
		for _, r := range requests {
			r, err := j.insertRequest(ctx, tx, r)
			if err != nil {
				return err
			}
			is, submitted = is.Submitted(r), append(submitted, r)
		}
		known, err := json.Marshal(is)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE campaigns SET known = $1 WHERE id = $2`, string(known), is.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return submitted, nil
}

func scanCampaign(row scanner) (reconfigure.Campaign, error) {
	var (
		c     reconfigure.Campaign
		id    reconfigure.CampaignID
		known string
	)
	if err := row.Scan(&id, &known); err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(known), &c); err != nil {
		return c, fmt.Errorf("campaign %s: %w", id, err)
	}
	c.ID = id
	return c, nil
}
