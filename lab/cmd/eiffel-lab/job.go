package main

import (
	"context"
	"strings"
)

// job submits a job for two nodes that do not exist, and follows it until they are removed again.
func (d *demo) job(ctx context.Context) error {
	job, err := d.submit("node[03-04]", "srun hostname; sleep 5")
	if err != nil {
		return err
	}
	d.say(
		"alice submits job %s for node[03-04], which have no instance. Slurm calls resume.sh, which calls reconfigure by SSH",
		job,
	)
	end := func(row []string) bool {
		return row[0] == "COMPLETED" && strings.HasSuffix(row[1], noInstance) && strings.HasSuffix(row[2], noInstance)
	}
	if err := d.follow(ctx, end, job, "node03", "node04"); err != nil {
		return err
	}
	ran, err := d.lab.JobField(job, "NodeList")
	if err != nil {
		return err
	}
	d.say("the job ran on %s. The nodes were idle for %d s, so Slurm called suspend.sh, and reconfigure removed their "+
		"instances",
		ran, d.lab.Declaration.Slurm.SuspendTime)
	return nil
}
