package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// idleGroups has nodes whose instances are stopped when they are idle.
func idleGroups(s sizes) []cluster.NodeGroup {
	group := cluster.Group("idle", "idle", 0, s.idle)
	group.WhenIdle = "stop"
	return []cluster.NodeGroup{group}
}

// idle measures jobs on stopped nodes.
func (b *bench) idle(ctx context.Context) (report, error) {
	r := report{about: "A job needs one node whose instance is stopped (`when_idle: stop`). Its instance is started, " +
		"and slurmd starts without playbooks, since nothing that they depend on has changed. Medians."}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	nodes := numbered(idleGroups(b.sizes)[0], 1, b.sizes.idle)
	made, err := lab.jobOn(ctx, nodes...)
	if err != nil {
		return r, err
	}
	if err := lab.stopped(ctx, nodes...); err != nil {
		return r, err
	}
	var came []split
	for _, node := range nodes {
		s, err := lab.jobOn(ctx, node)
		if err != nil {
			return r, err
		}
		b.say("%s is started: registered after %s, first line after %s", node, seconds(s.up), seconds(s.first))
		came = append(came, s)
		if err := lab.settled(ctx); err != nil {
			return r, err
		}
	}
	line := middle(came, func(s split) time.Duration { return s.first })
	r.rows = []row{{
		what: "start of one stopped node, sbatch to the job's first line", measured: seconds(line),
		beside: fmt.Sprintf("%d nodes that are made %s", len(nodes), seconds(made.first)),
		ratio:  ratio(times(line, made.first)), goal: "< 1", met: line < made.first, value: line.Seconds(),
	}}
	r.details = splitTable(came)
	return r, lab.stopped(ctx, nodes...)
}

// stopped ends all jobs, lets Slurm power down nodes, and waits until their instances are stopped.
func (l *lab) stopped(ctx context.Context, nodes ...string) error {
	if err := l.slurm("scancel", "--user=alice"); err != nil {
		return err
	}
	if err := l.settled(ctx); err != nil {
		return err
	}
	if err := l.slurm("scontrol", "update", "NodeName="+strings.Join(nodes, ","), "State=POWER_DOWN"); err != nil {
		return err
	}
	err := until(ctx, patience, 300*time.Millisecond, fmt.Sprintf("%v are stopped", nodes), func() (bool, error) {
		states, err := l.states()
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(nodes, func(node string) bool {
			return strings.TrimSuffix(states[node], "+NOT_RESPONDING") != "IDLE+CLOUD+POWERED_DOWN" ||
				!slices.ContainsFunc(l.Cloud.Servers(), func(s labcloud.Server) bool {
					return s.Name == node && s.Status == "SHUTOFF"
				})
		}), nil
	})
	return err
}
