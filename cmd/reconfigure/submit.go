package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func requestFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "no-wait", Usage: "return as soon as the request is on disk; nodes that nobody declares are left out instead of refusing it all", DisableDefaultText: true},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would be done, and do nothing", DisableDefaultText: true},
		&cli.StringFlag{Name: "reason", Usage: "`WHY`, for the journal and `reconfigure status`"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "show each step of Terraform and Ansible, too", DisableDefaultText: true},
	}
}

// submit writes a request down, has a worker carry it out, and follows it to its outcome.
func submit(c *cli.Context, r reconfigure.Request) error {
	s, err := siteOf(c)
	if err != nil {
		return err
	}
	// Slurm's slurm.conf may be older than the declaration: one node that is gone must not hold back the others that its jobs wait for.
	if err := declared(c, s.cluster, r.Nodes); err != nil && !c.Bool("no-wait") {
		return err
	}
	if c.Bool("dry-run") {
		return preview(c, s, r)
	}
	r.Reason, r.Caller = c.String("reason"), caller()
	log, err := s.journal(c.Context)
	if err != nil {
		return err
	}
	defer log.Close()
	if r, err = log.Submit(c.Context, r); err != nil {
		return err
	}
	if err := startWorker(s); err != nil {
		return fmt.Errorf("request %s is on disk, but no worker could be started for it: %w", r.ID, err)
	}
	if c.Bool("no-wait") {
		return showSubmitted(c, r)
	}
	outcome, err := follow(c, s, log, r)
	if err != nil {
		return err
	}
	return showOutcome(c, s, r, outcome)
}

func showSubmitted(c *cli.Context, r reconfigure.Request) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(struct {
			Request reconfigure.RequestID `json:"request"`
		}{r.ID})
	}
	_, err := fmt.Fprintf(c.App.Writer, "request %s\n", r.ID)
	return err
}
