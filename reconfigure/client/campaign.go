package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/campaign"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// Campaign is a campaign that may be started.
type Campaign struct {
	reconfigure.Campaign
	Nodes nodeset.NodeSet // the outdated nodes

	changes  []config.Change
	edit     config.Edit
	replaces reconfigure.CampaignID // the campaign that has not ended; it is aborted for this one
}

// NewCampaign prepares a campaign; without groups, of all groups. It changes nothing.
func NewCampaign(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, wanted reconfigure.Campaign,
) (Campaign, error) {
	last, there, err := newest(ctx, log)
	if err != nil {
		return Campaign{}, err
	}
	if there && !last.Ends() {
		return Campaign{}, unended(last)
	}
	if len(wanted.Groups) == 0 {
		for _, g := range s.Cluster.Groups {
			wanted.Groups = append(wanted.Groups, g.Name)
		}
	}
	return prepare(ctx, s, log, out, Campaign{Campaign: wanted})
}

// NewRollback prepares a campaign that returns to the images, by their ids, that the nodes had before the last
// campaign. The declaration then names these images, and the last campaign is aborted.
func NewRollback(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, wanted reconfigure.Campaign,
) (Campaign, error) {
	last, there, err := newest(ctx, log)
	switch {
	case err != nil:
		return Campaign{}, err
	case !there:
		return Campaign{}, errors.New("there was no campaign, so there is nothing to roll back")
	}
	c := Campaign{Campaign: wanted}
	if c.Rollback = last.ID; !last.Ends() {
		c.replaces = last.ID
	}
	lives, err := log.Lives(ctx, time.Unix(0, 0))
	if err != nil {
		return c, err
	}
	for _, name := range last.Groups {
		if len(wanted.Groups) > 0 && !slices.Contains(wanted.Groups, name) {
			continue
		}
		id, err := formerImage(last, name, lives)
		if err != nil {
			return c, err
		}
		g, err := reconfigure.GroupNamed(s.Cluster.Groups, name)
		if err != nil {
			return c, err
		}
		switch id {
		case "":
			out.WarnContext(ctx, fmt.Sprintf("the image of %s stays %s: its former image is unknown, since it had no nodes "+
				"with another image when campaign %s began, and the journal has no earlier instance of it; if it must change "+
				"too, write it into %s", name, g.Image, last.ID, config.SiteFile))
			continue
		case last.Targets[name].ImageID:
			continue // the campaign did not change it
		}
		if g.Image != id {
			c.changes = append(c.changes, config.Image{Group: name, From: g.Image, To: id})
		}
		s.Cluster = s.Cluster.WithImage(name, id)
		if !slices.Contains(c.Groups, name) {
			c.Groups = append(c.Groups, name)
		}
	}
	if len(c.Groups) == 0 {
		return c, fmt.Errorf("campaign %s changed no image", last.ID)
	}
	if c.edit, err = config.Prepare(s.Dir, c.changes...); err != nil {
		return c, err
	}
	return prepare(ctx, s, log, out, c)
}

// formerImage returns the id of the image that the outdated nodes of a group had before a campaign. If there were none,
// since all its nodes were off for instance, it is that of the newest instance before the campaign that registered with
// Slurm; empty if the journal has none.
func formerImage(c reconfigure.Campaign, group string, lives []reconfigure.Life) (string, error) {
	images := c.Former[group]
	switch ids := slices.Sorted(maps.Keys(images)); {
	case len(ids) > 1:
		said := make([]string, len(ids))
		for i, id := range ids {
			said[i] = fmt.Sprintf("%s on %s", id, images[id])
		}
		return "", fmt.Errorf("the nodes of %s had several images before campaign %s: %s; write one of them into %s as "+
			"the image of %s, and run `reconfigure update --outdated --group %s`", group, c.ID, strings.Join(said, ", "),
			config.SiteFile, group, group)
	case len(ids) == 1:
		return ids[0], nil
	}
	for _, l := range slices.Backward(lives) {
		if l.Group == group && l.ImageID != "" && !l.Registered.IsZero() && l.Made.Before(c.Started) {
			return l.ImageID, nil
		}
	}
	return "", nil
}

func prepare(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, c Campaign,
) (Campaign, error) {
	adapters := s.Readers(log, out)
	defer adapters.Close()
	observer := adapters.Observer()
	observer.Limit = site.AnswerWithin
	seen, err := observer.Observe(ctx, snapshot.Scope{Declared: true})
	if err != nil {
		return c, err
	}
	if why, missing := seen.Missing[snapshot.Terraform]; missing {
		return c, errors.New(why)
	}
	if c.Campaign, err = campaign.New(c.Campaign, s.Cluster, seen); err != nil {
		return c, err
	}
	c.Nodes = campaign.Outdated(c.Campaign, s.Cluster, seen)
	return c, nil
}

// newest returns the newest campaign. Without a journal there is none.
func newest(ctx context.Context, log *journal.Journal) (reconfigure.Campaign, bool, error) {
	if log == nil {
		return reconfigure.Campaign{}, false, nil
	}
	return log.Campaign(ctx)
}

func unended(c reconfigure.Campaign) error {
	return fmt.Errorf("campaign %s is %s: `reconfigure campaign` shows its progress, and `reconfigure campaign abort` "+
		"ends it", c.ID, c.State)
}

// Empty reports whether there is nothing to update and to roll back.
func (c Campaign) Empty() bool { return c.Nodes.Empty() && c.Rollback == 0 }

// Preview returns what a dry run shows.
func (c Campaign) Preview() status.CampaignPreview {
	p := status.CampaignPreview{
		Groups: c.Groups, Limits: c.CampaignLimits, Canary: c.Canary, Nodes: c.Nodes, Aborts: c.replaces,
	}
	for _, change := range c.changes {
		p.Declaration = append(p.Declaration, change)
	}
	return p
}

// StartCampaign edits the declaration, aborts the campaign that the new one rolls back, and starts the new one. It
// may be retried after an error.
func StartCampaign(ctx context.Context, s site.Site, log *journal.Journal, c Campaign) (reconfigure.Campaign, error) {
	if err := s.UpToDate(ctx, log); err != nil {
		return c.Campaign, err
	}
	if c.replaces != 0 {
		if _, err := ChangeCampaign(ctx, log, c.replaces, abort); err != nil {
			return c.Campaign, err
		}
	}
	if len(c.changes) > 0 {
		if err := c.edit.Write(ctx); err != nil {
			return c.Campaign, err
		}
		if err := s.UpToDate(ctx, log); err != nil { // from now on the other control hosts are behind
			return c.Campaign, c.stands(err)
		}
	}
	started, err := log.StartCampaign(ctx, c.Campaign)
	if err == nil {
		return started, nil
	}
	if last, there, e := log.Campaign(ctx); e == nil && there && errors.Is(err, reconfigure.ErrCampaign) {
		err = unended(last)
	}
	return c.Campaign, c.stands(err)
}

// stands returns an error that occurred after the declaration was edited.
func (c Campaign) stands(err error) error {
	if len(c.changes) == 0 {
		return err
	}
	return fmt.Errorf("%s now names the former image, but the campaign was not started; `reconfigure update --outdated` "+
		"starts it: %w", config.SiteFile, err)
}

func abort(c reconfigure.Campaign) reconfigure.Campaign { return campaign.Abort(c, time.Now()) }

// CampaignChanges returns the possible changes of a campaign, by the words of the command.
func CampaignChanges(by, reason string) map[string]func(reconfigure.Campaign) reconfigure.Campaign {
	return map[string]func(reconfigure.Campaign) reconfigure.Campaign{
		"pause": func(c reconfigure.Campaign) reconfigure.Campaign {
			why := "paused by " + by
			if reason != "" {
				why += ": " + reason
			}
			return campaign.Pause(c, why)
		},
		"continue": campaign.Continue,
		"abort":    abort,
	}
}

// ChangeCampaign changes a campaign. If the campaign is aborted, it also cancels the campaign's requests that have
// not begun. It returns the campaign.
func ChangeCampaign(
	ctx context.Context, log *journal.Journal, id reconfigure.CampaignID,
	change func(reconfigure.Campaign) reconfigure.Campaign,
) (c reconfigure.Campaign, err error) {
	_, err = log.AdvanceCampaign(ctx, id,
		func(was reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
			c = change(was)
			return c, nil, nil
		})
	if err != nil || c.State != reconfigure.CampaignAborted {
		return c, err
	}
	for _, request := range c.Open {
		err := log.Cancel(ctx, request)
		if err != nil && !errors.Is(err, reconfigure.ErrBegun) && !errors.Is(err, reconfigure.ErrFinished) {
			return c, err
		}
	}
	return c, nil
}
