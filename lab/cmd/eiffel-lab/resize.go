package main

import (
	"context"
	"fmt"
	"os"
)

// resize makes a cloud node persistent while a job runs on it, and a cloud node again.
func (d *demo) resize(ctx context.Context) error {
	job, err := d.lab.Submit("--nodelist=node03", "--wrap=sleep 60")
	if err != nil {
		return err
	}
	d.say("alice's job %s needs node03, a cloud node", job)
	if err := d.follow(ctx, func(row []string) bool { return row[0] == "RUNNING" }, job, "node03"); err != nil {
		return err
	}
	d.say("`reconfigure enlarge standard --to 3`: node03 becomes persistent, and slurm.conf another one on all nodes")
	if err := d.reconfigure(ctx, "enlarge", "standard", "--to", "3"); err != nil {
		return err
	}
	if err := d.follow(ctx, func(row []string) bool { return row[1] == "MIXED" }, job, "node03"); err != nil {
		return err
	}
	d.say("`reconfigure shrink standard --to 2`: it is drained, and its instance stays until the job has ended")
	if err := d.reconfigure(ctx, "shrink", "standard", "--to", "2"); err != nil {
		return err
	}
	if err := d.follow(ctx, func(row []string) bool { return row[0] == "COMPLETED" && row[1] == "IDLE+CLOUD+POWERED_DOWN" }, job, "node03"); err != nil {
		return err
	}
	restarts, err := d.lab.JobField(job, "Restarts")
	if err != nil {
		return err
	}
	d.say("job %s ran to its end, with %s restarts, and node03 is a cloud node again", job, restarts)
	return nil
}

// reconfigure shows a call of the tool.
func (d *demo) reconfigure(ctx context.Context, args ...string) error {
	call := d.lab.Reconfigure(ctx, args...)
	call.Stdout, call.Stderr = d.out, os.Stderr
	if err := call.Run(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
