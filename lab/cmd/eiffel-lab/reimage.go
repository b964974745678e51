package main

import (
	"context"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// reimage declares another image and has Slurm reimage one node while a job runs on the other one. Then it reboots the
// node.
func (d *demo) reimage(ctx context.Context) error {
	job, err := d.submit("node02", "sleep 20")
	if err != nil {
		return err
	}
	running := func(row []string) bool { return row[0] == "RUNNING" }
	if err := d.follow(ctx, running, job, "node02"); err != nil {
		return err
	}
	bumped := d.lab.Declaration
	bumped.NodeGroups = slices.Clone(bumped.NodeGroups)
	bumped.NodeGroups[0].Image = cluster.ImageV2
	if err := d.lab.Declare(bumped); err != nil {
		return err
	}
	d.say("image %s is declared. `reconfigure plan update node01` says what an update would do:", cluster.ImageV2)
	if err := d.reconfigure(ctx, "plan", "update", "node01"); err != nil {
		return err
	}
	d.say(
		"`scontrol reboot ASAP nextstate=RESUME reason=reimage node01`: slurmd runs reboot.sh, which calls reconfigure " +
			"by SSH",
	)
	if _, err := d.control("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node01"); err != nil {
		return err
	}
	end := func(row []string) bool {
		return row[0] == "COMPLETED" && strings.HasPrefix(row[1], "IDLE, ACTIVE") && d.image("node01") == cluster.ImageV2
	}
	if err := d.follow(ctx, end, job, "node01", "node02"); err != nil {
		return err
	}
	restarts, err := d.lab.JobField(job, "Restarts")
	if err != nil {
		return err
	}
	d.say(
		"node01 has image %s, node02 still has %s, and job %s had %s restarts", d.image("node01"), d.image("node02"), job,
		restarts,
	)
	d.say("`reconfigure update node01`: node01 is as declared, so it is drained, rebooted and undrained")
	return d.reconfigure(ctx, "update", "node01")
}
