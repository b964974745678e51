package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "deploy a cluster, run a job for which it grows, and watch it shrink again",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "checkout", Value: ".", Usage: "the checkout to show"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the lab up at the end, until Ctrl-C"},
		},
		Action: func(c *cli.Context) (err error) {
			checkout, err := filepath.Abs(c.Path("checkout"))
			if err != nil {
				return err
			}
			d := &demo{out: c.App.Writer, begun: time.Now()}
			d.say("starting the lab: an OpenStack whose servers are namespaces")
			paths, err := tools.Find(checkout)
			if err != nil {
				return err
			}
			d.lab, err = cluster.Start(c.Context, cluster.Config{
				Name: demoName, Gateway: netip.MustParsePrefix("10.61.0.1/24"), Checkout: checkout, Tools: paths,
				Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 6)},
			})
			if err != nil {
				return err
			}
			defer func() {
				d.say("ending the lab")
				if err = errors.Join(err, d.lab.Close()); err == nil {
					d.say("nothing is left of it")
				}
			}()
			if err := d.play(c.Context); err != nil {
				return err
			}
			if c.Bool("keep") {
				d.keep(c.Context)
			}
			return nil
		},
	}
}

// demoName is the name of the lab that the demo runs on.
const demoName = "demo"

// demo tells a story on a lab.
type demo struct {
	out   io.Writer
	begun time.Time
	lab   *cluster.Lab
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1f s  %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) play(ctx context.Context) error {
	d.say("`reconfigure deploy`: Terraform makes the control node and two persistent nodes, Ansible configures them")
	if err := d.reconfigure(ctx, "deploy"); err != nil {
		return err
	}
	if err := d.grow(ctx); err != nil {
		return err
	}
	if err := d.reimage(ctx); err != nil {
		return err
	}
	if err := d.reboot(ctx); err != nil {
		return err
	}
	if err := d.resize(ctx); err != nil {
		return err
	}
	return d.phases(ctx)
}

// grow submits a job for two nodes that do not exist, and watches it until they are gone again.
func (d *demo) grow(ctx context.Context) error {
	job, err := d.lab.Submit("--nodes=2", "--nodelist=node[03-04]", "--wrap=srun hostname; sleep 5")
	if err != nil {
		return err
	}
	d.say("alice submits job %s for node[03-04], which do not exist: Slurm calls resume.sh, that calls reconfigure by SSH", job)
	if err := d.watch(ctx, job, "node03", "node04"); err != nil {
		return err
	}
	output, err := d.lab.Command(cluster.ControlNodeName, "cat", "/home/alice/slurm-"+job+".out").Output()
	if err == nil {
		d.say("the job ran on %s", strings.Join(strings.Fields(string(output)), " and "))
	}
	d.say("the nodes were idle for %d s, so Slurm called suspend.sh, and their instances are gone", d.lab.Declaration.Slurm.SuspendTime)
	return nil
}

func (d *demo) keep(ctx context.Context) {
	d.say("the lab stays up until Ctrl-C. In another terminal:")
	fmt.Fprintf(d.out, `
    enter a node:         go run ./lab/cmd/eiffel-lab enter ctl
    submit another job:   go run ./lab/cmd/eiffel-lab enter ctl runuser -u alice -- env -C /home/alice sbatch -N 2 -w 'node[03-04]' --wrap hostname
    see every node:       %[1]s/bin/reconfigure --dir %[1]s status
    what the worker did:  ls %[2]s

`, d.lab.Site, filepath.Join(d.lab.StateDir(), "log"))
	<-ctx.Done()
}
