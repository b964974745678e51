package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// demoName is the name of the lab that the demo runs on.
const demoName = "demo"

// scene is one part of the demo. Each starts and ends with a deployed, idle cluster.
type scene struct {
	name, shows string
	play        func(*demo, context.Context) error
}

// scenes are all scenes, in the order of `--scene all`.
func scenes() []scene {
	return []scene{
		{"job", "a job gets two cloud nodes, and they are removed when they are idle", (*demo).job},
		{"reimage", "one node gets another image while a job runs on another one, then a reboot", (*demo).reimage},
		{"resize", "a cloud node becomes persistent and a cloud node again while a job runs on it", (*demo).resize},
		{"failure", "the cloud has no room for one of two nodes", (*demo).failure},
	}
}

// choose returns the scenes that a name selects.
func choose(name string) ([]scene, error) {
	all := scenes()
	if name == "all" {
		return all, nil
	}
	var names []string
	for _, s := range all {
		if s.name == name {
			return []scene{s}, nil
		}
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("there is no scene %q: it is one of %s, all", name, strings.Join(names, ", "))
}

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "deploy a cluster in a lab and show one scene on it",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "checkout", Value: ".", Usage: "the checkout to show"},
			&cli.StringFlag{Name: "scene", Value: "job", Usage: "job, reimage, resize, failure or all"},
			&cli.BoolFlag{Name: "check", Usage: "only check the name of the scene"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the lab up at the end, until Ctrl-C"},
		},
		Action: func(c *cli.Context) error {
			chosen, err := choose(c.String("scene"))
			if err != nil || c.Bool("check") {
				return err
			}
			checkout, err := filepath.Abs(c.Path("checkout"))
			if err != nil {
				return err
			}
			d := &demo{out: c.App.Writer, begun: time.Now()}
			return d.run(c.Context, checkout, chosen, c.Bool("keep"))
		},
	}
}

// demo shows scenes on a lab.
type demo struct {
	out   io.Writer
	begun time.Time
	lab   *cluster.Lab
}

// say prints a line with the time since the demo began.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1f s  %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}

// run starts a lab, deploys the cluster, shows the scenes and ends the lab.
func (d *demo) run(ctx context.Context, checkout string, chosen []scene, keep bool) (err error) {
	d.say("start the lab: an OpenStack API whose servers are Linux namespaces on this machine")
	paths, err := tools.Find(checkout)
	if err != nil {
		return err
	}
	d.lab, err = cluster.Start(ctx, cluster.Config{
		Name: demoName, Gateway: netip.MustParsePrefix("10.61.0.1/24"), Checkout: checkout, Tools: paths,
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 2, 6)},
	})
	if err != nil {
		return err
	}
	defer func() {
		d.say("end the lab")
		if err = errors.Join(err, d.lab.Close()); err == nil {
			d.say("all its processes, namespaces and files are removed")
		}
	}()
	// The demo's cluster has shorter waits, since people watch it.
	declared := d.lab.Declaration
	declared.Slurm.SuspendTime = 5
	if err := d.lab.Declare(declared); err != nil {
		return err
	}
	d.say("`reconfigure deploy`: Terraform makes the control node and two persistent nodes, Ansible configures them")
	if err := d.reconfigure(ctx, "deploy"); err != nil {
		return err
	}
	for _, s := range chosen {
		d.say("scene %s: %s", s.name, s.shows)
		if err := s.play(d, ctx); err != nil {
			return fmt.Errorf("scene %s: %w", s.name, err)
		}
	}
	if err := d.phases(ctx); err != nil {
		return err
	}
	if keep {
		d.keep(ctx)
	}
	return nil
}

// keep waits for Ctrl-C, and prints what can be done until then.
func (d *demo) keep(ctx context.Context) {
	d.say("the lab stays up until Ctrl-C. In another terminal:")
	fmt.Fprintf(d.out, `
    a shell on a node:    go run ./lab/cmd/eiffel-lab enter ctl
    submit another job:   go run ./lab/cmd/eiffel-lab enter ctl runuser -u alice -- \
                            env -C /home/alice sbatch -N 2 -w 'node[03-04]' --wrap hostname
    a shell of the user of the control host, in the cluster directory:
                          go run ./lab/cmd/eiffel-lab enter control-host
    status of all nodes:  go run ./lab/cmd/eiffel-lab enter control-host bin/reconfigure status
    logs of the worker:   ls %s

`, filepath.Join(d.lab.StateDir(), "log"))
	<-ctx.Done()
}

// reconfigure runs the tool and shows its output.
func (d *demo) reconfigure(ctx context.Context, args ...string) error {
	call := d.lab.Reconfigure(ctx, args...)
	call.Stdout, call.Stderr = d.out, os.Stderr
	if err := call.Run(); err != nil {
		return fmt.Errorf("reconfigure %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// submit submits a job as alice.
func (d *demo) submit(nodes, command string) (string, error) {
	return d.lab.Submit("--nodelist="+nodes, "--wrap="+command)
}

// control runs a command as root on the control node and returns its output.
func (d *demo) control(argv ...string) (string, error) {
	out, err := d.lab.Command(cluster.ControlNodeName, argv...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}
