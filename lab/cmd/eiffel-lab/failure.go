package main

import (
	"context"
	"errors"
	"strings"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// failure makes the cloud report that it has no room for one of two nodes. The other node comes up, and the scene shows
// the messages to the user and the administrator.
func (d *demo) failure(ctx context.Context) error {
	const bad, good = "node05", "node06"
	fault, err := d.lab.Cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: bad, Count: 1000})
	if err != nil {
		return err
	}
	defer d.lab.Cloud.Faults().Clear(fault)
	waits, err := d.submit(bad, "hostname")
	if err != nil {
		return err
	}
	runs, err := d.submit(good, "hostname")
	if err != nil {
		return err
	}
	d.say(
		"from now on the cloud has \"No valid host\" for %s. Job %s needs %s, job %s needs %s", bad, waits, bad, runs, good,
	)
	comment := ""
	end := func(row []string) bool {
		comment, _ = d.lab.JobField(waits, "AdminComment")
		return row[0] == "COMPLETED" && comment != ""
	}
	if err := d.follow(ctx, end, runs, bad, good); err != nil {
		return err
	}
	d.say(
		"job %s completed. Job %s is back in the queue, and its owner reads in `scontrol show job %s`:", runs, waits, waits,
	)
	shown, err := d.control("scontrol", "show", "job", waits)
	if err != nil {
		return err
	}
	_, line, found := strings.Cut(shown, "AdminComment=")
	if !found {
		return errors.New("the job has no comment")
	}
	line, _, _ = strings.Cut(line, "\n")
	d.row("", []string{"AdminComment=" + line})
	d.say("`reconfigure status` says the same to the administrator:")
	if err := d.reconfigure(ctx, "status", "-o", "wide"); err != nil {
		return err
	}
	d.lab.Cloud.Faults().Clear(fault)
	d.say("the cloud has room again, so job %s is started now, which Slurm itself does after two minutes", waits)
	if _, err := d.control("scontrol", "update", "JobId="+waits, "StartTime=now"); err != nil {
		return err
	}
	end = func(row []string) bool { return row[0] == "COMPLETED" && poweredDown(row[1]) && poweredDown(row[2]) }
	return d.follow(ctx, end, waits, bad, good)
}
