package main

import (
	"fmt"
	"maps"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

func campaignFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "outdated", Usage: "start a campaign over the nodes that differ from the declaration, and " +
			"return", DisableDefaultText: true},
		&cli.BoolFlag{Name: "rollback", Usage: "start a campaign back to the image that the nodes had before the last " +
			"one; all.yml names its id then", DisableDefaultText: true},
		&cli.StringSliceFlag{Name: "group", Usage: "of a campaign: only the node group `NAME`; may be repeated"},
		&cli.IntFlag{Name: "batch", Value: 1, Usage: "of a campaign: update at most `N` nodes at a time"},
		&cli.IntFlag{Name: "max-unavailable", Usage: "of a campaign: have at most `N` nodes of the groups that Slurm " +
			"cannot use, for any reason", DefaultText: "as many as --batch"},
		&cli.BoolFlag{Name: "canary", Usage: "of a campaign: update and test one node of each group before the others",
			DisableDefaultText: true},
		&cli.IntFlag{Name: "pause-on-failures", Value: 1, Usage: "of a campaign: pause when `N` nodes have failed"},
		waitFlag(),
	}
}

func waitFlag() cli.Flag {
	return &cli.BoolFlag{Name: "wait", Usage: "follow the campaign until it has ended or is paused; the exit code is 0 " +
		"if all of its nodes are updated, and 3 if some failed", DisableDefaultText: true}
}

// startCampaign starts a campaign, or only shows it with --dry-run.
func startCampaign(c *cli.Context, timeout time.Duration) error {
	wanted := reconfigure.Campaign{
		Groups: c.StringSlice("group"), Canary: c.Bool("canary"), Reason: c.String("reason"), Caller: client.Caller(c.Context),
		CampaignLimits: reconfigure.CampaignLimits{
			Batch: c.Int("batch"), MaxUnavailable: c.Int("batch"), PauseOnFailures: c.Int("pause-on-failures"),
			DrainTimeout: timeout,
		},
	}
	if c.IsSet("max-unavailable") {
		wanted.MaxUnavailable = c.Int("max-unavailable")
	}
	if min(wanted.Batch, wanted.MaxUnavailable, wanted.PauseOnFailures) < 1 {
		return usagef(c, "--batch, --max-unavailable and --pause-on-failures must be 1 or more")
	}
	s, err := siteOf(c)
	if err != nil {
		return err
	}
	for _, name := range wanted.Groups {
		if _, err := reconfigure.GroupNamed(s.Cluster.Groups, name); err != nil {
			return usagef(c, "%v", err)
		}
	}
	prepare := client.NewCampaign
	if c.Bool("rollback") {
		prepare = client.NewRollback
	}
	with := s.IfJournal
	if !c.Bool("dry-run") {
		with = s.WithJournal
	}
	return with(c.Context, func(log *journal.Journal) error {
		prepared, err := prepare(c.Context, s, log, logger(c), wanted)
		if err != nil {
			return err
		}
		if c.Bool("dry-run") || prepared.Empty() {
			preview := prepared.Preview()
			return show(c, preview, printing(preview, "\n"))
		}
		started, err := client.StartCampaign(c.Context, s, log, prepared)
		if err != nil {
			return err
		}
		return showCampaign(c, s, log, started, true)
	})
}

func campaignCommand() *cli.Command {
	return command(cli.Command{
		Name:  "campaign",
		Usage: "show the campaign that `update --outdated` has started, pause it, have it go on, or abort it",
		Description: "Without a word, and with show, it prints how far the newest campaign is. With pause, no further " +
			"node is begun until continue, which also tries again what has failed; abort ends it. Nodes that have begun " +
			"go on. `reconfigure pause` and `continue` are about all requests instead.",
		ArgsUsage: "[show|pause|continue|abort]",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`WHY` it is paused"}, waitFlag(), workerFlag()},
		Action: func(c *cli.Context) error {
			words := append(c.Args().Slice(), "show")
			change, known := client.CampaignChanges(client.Caller(c.Context), c.String("reason"))[words[0]]
			if len(words) > 2 || !known && words[0] != "show" {
				return usagef(c, "campaign takes one of show, pause, continue and abort, but got %q", c.Args().Slice())
			}
			return readJournal(c, siteAnyway, func(s site.Site, log *journal.Journal) (err error) {
				var newest reconfigure.Campaign
				there := false
				if log != nil {
					newest, there, err = log.Campaign(c.Context)
				}
				switch {
				case err != nil:
					return err
				case !there && !known:
					return show(c, nil, printing("There was no campaign yet; `reconfigure update --outdated` starts one.\n"))
				case !there:
					return usagef(c, "there was no campaign yet: `reconfigure update --outdated` starts one")
				case known:
					newest, err = client.ChangeCampaign(c.Context, log, newest.ID, change)
				}
				if err != nil {
					return err
				}
				return showCampaign(c, s, log, newest, known)
			})
		},
	})
}

// showCampaign starts a worker for a campaign and shows the campaign; with --wait, after it has ended or paused.
func showCampaign(c *cli.Context, s site.Site, log *journal.Journal, newest reconfigure.Campaign, start bool) error {
	if start {
		if err := worker.Start(c.Context, s); err != nil {
			return fmt.Errorf("campaign %s is on disk, but no worker could be started: %w", newest.ID, err)
		}
	}
	if c.Bool("wait") {
		out := logger(c)
		var err error
		newest, err = client.FollowCampaign(c.Context, s, log, newest.ID, func(now reconfigure.Campaign) {
			out.Info("campaign "+string(now.State), "done", now.Done, "under_way", nodeset.Collect(maps.Keys(now.Open)),
				"failed", nodeset.Collect(maps.Keys(now.Failed)), "why", now.Why)
		})
		if err != nil {
			return err
		}
	}
	campaign := status.NewCampaign(newest)
	err := show(c, campaign, printing(campaign, "\n"))
	if err == nil && c.Bool("wait") {
		err = campaign.Problem()
	}
	return err
}
