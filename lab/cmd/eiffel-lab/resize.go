package main

import (
	"context"
	"strings"
)

// resize makes a cloud node persistent while a job runs on it, and a cloud node again.
func (d *demo) resize(ctx context.Context) error {
	job, err := d.submit("node03", "sleep 40")
	if err != nil {
		return err
	}
	d.say("alice's job %s needs node03, a cloud node", job)
	if err := d.follow(ctx, func(row []string) bool { return row[0] == "RUNNING" }, job, "node03"); err != nil {
		return err
	}
	d.say("`reconfigure enlarge standard --to 3`: node03 becomes persistent, and all nodes get a new slurm.conf")
	if err := d.reconfigure(ctx, "enlarge", "standard", "--to", "3"); err != nil {
		return err
	}
	persistent := func(row []string) bool {
		return strings.HasPrefix(row[1], "MIXED, ") || strings.HasPrefix(row[1], "IDLE, ")
	}
	if err := d.follow(ctx, persistent, job, "node03"); err != nil {
		return err
	}
	d.say("`reconfigure shrink standard --to 2`: node03 is drained, and its instance stays until the job has ended")
	if err := d.reconfigure(ctx, "shrink", "standard", "--to", "2"); err != nil {
		return err
	}
	end := func(row []string) bool { return row[0] == "COMPLETED" && poweredDown(row[1]) }
	if err := d.follow(ctx, end, job, "node03"); err != nil {
		return err
	}
	restarts, err := d.lab.JobField(job, "Restarts")
	if err != nil {
		return err
	}
	d.say("job %s completed with %s restarts, and node03 is a cloud node again", job, restarts)
	return nil
}
