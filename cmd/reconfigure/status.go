package main

import (
	"encoding/json"
	"time"

	"github.com/urfave/cli/v2"
)

func statusCommand() *cli.Command {
	return command(cli.Command{
		Name:  "status",
		Usage: "show each node as Slurm, the cloud, Terraform and the journal have it, and the requests under way",
		Description: "It checks group_vars/all.yml, asks the cloud, Terraform and Slurm, and changes nothing. That one of them does not answer is part of what it shows: " +
			"the exit code is 0 then, too. Cloud nodes that are powered down share one line. IMAGE is the declared image's name, or the id of another one " +
			"that the node has still.",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			log, err := s.journal(c.Context)
			if err != nil {
				return err
			}
			defer log.Close()
			known, err := recall(c.Context, log)
			if err != nil {
				return err
			}
			report := s.look(c.Context, logger(c)).report(s.cluster, known)
			if err := c.Context.Err(); err != nil {
				return err // nobody was silent, we did not listen
			}
			if wantsJSON(c) {
				return json.NewEncoder(c.App.Writer).Encode(report)
			}
			return report.write(c.App.Writer, time.Now())
		},
	})
}
