package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// reimage declares another image, and has Slurm reimage one node while a job runs on the other one.
func (d *demo) reimage(ctx context.Context) error {
	job, err := d.lab.Submit("--nodelist=node02", "--wrap=sleep 30")
	if err != nil {
		return err
	}
	bumped := d.lab.Declaration
	bumped.NodeGroups = slices.Clone(bumped.NodeGroups)
	bumped.NodeGroups[0].Image = cluster.ImageV2
	if err := d.lab.Declare(bumped); err != nil {
		return err
	}
	d.say("image %s is declared, and alice's job %s runs on node02. What would an update of node01 do?", cluster.ImageV2, job)
	if err := d.reconfigure(ctx, "plan", "update", "node01"); err != nil {
		return err
	}
	d.say("`scontrol reboot ASAP nextstate=RESUME reason=reimage node01`: slurmd runs reboot.sh, that calls reconfigure by SSH")
	reboot := d.lab.Command(cluster.ControlNodeName, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node01")
	if out, err := reboot.CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol reboot: %w: %s", err, out)
	}
	if err := d.follow(ctx, func(row []string) bool {
		return row[0] == "COMPLETED" && row[1] == "IDLE" && d.image("node01") == cluster.ImageV2
	}, job, "node01", "node02"); err != nil {
		return err
	}
	d.say("node01 has image %s at its old address, node02 has %s still, and its job never noticed", d.image("node01"), d.image("node02"))
	return nil
}

// reboot updates a node that is what is declared.
func (d *demo) reboot(ctx context.Context) error {
	d.say("`reconfigure update node01`: it is what is declared, so it is drained, rebooted and undrained")
	return d.reconfigure(ctx, "update", "node01")
}

// image is what a node says that it was made of; "" while it does not answer.
func (d *demo) image(node string) string {
	release, err := d.lab.Command(node, "cat", "/etc/image-release").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// follow prints a row whenever the state of the job or of one of the nodes changes, until the end.
func (d *demo) follow(ctx context.Context, end func(row []string) bool, job string, nodes ...string) error {
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last []string
	for {
		now, err := d.slurmStates(job, nodes)
		if err == nil && !slices.Equal(now, last) {
			fmt.Fprintf(d.out, "%6.1f s  job %s\n", time.Since(d.begun).Seconds(), strings.Join(now, "  "))
			last = now
		}
		if err == nil && end(now) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("job %s and its nodes did not get to the end: %v, %w", job, last, ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (d *demo) slurmStates(job string, nodes []string) ([]string, error) {
	state, err := d.lab.JobState(job)
	row := []string{state}
	for _, node := range nodes {
		if err != nil {
			return nil, err
		}
		state, err = d.lab.NodeState(node)
		row = append(row, state)
	}
	return row, err
}
