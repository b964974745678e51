package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// commandGroups has a node for srun, one for salloc, and two each for an array and a job on two nodes.
func commandGroups(sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("commands", "k", 0, 6)}
}

// commands measures the other ways to start a job, once each.
func (b *bench) commands(ctx context.Context) (report, error) {
	r := report{about: "A job that needs nodes without instances, by each of Slurm's ways to start one, from the " +
		"command to the first line: once each. salloc's first line is that of its command on the control node. The first " +
		"line of an array is the last one of its tasks, each of which has a node."}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	nodes := numbered(commandGroups(b.sizes)[0], 1, 6)
	now := "date +%s.%N"
	for _, c := range []struct {
		what    string
		measure func() (time.Duration, error)
	}{
		{"srun", func() (time.Duration, error) { return lab.asks("srun", "--nodelist="+nodes[0], "sh", "-c", now) }},
		{"salloc", func() (time.Duration, error) { return lab.asks("salloc", "--nodelist="+nodes[1], "sh", "-c", now) }},
		{"sbatch of an array of 2 tasks on 2 nodes", func() (time.Duration, error) { return lab.arrayOn(ctx, nodes[2:4]) }},
		{"sbatch of a job on 2 nodes", func() (time.Duration, error) {
			s, err := lab.jobOn(ctx, nodes[4:]...)
			return s.first, err
		}},
	} {
		took, err := c.measure()
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.what, err)
		}
		b.say("%s: first line after %s", c.what, seconds(took))
		r.rows = append(r.rows, row{what: c.what + ", to the first line", measured: seconds(took), value: took.Seconds()})
		if err := lab.settled(ctx); err != nil {
			return r, err
		}
	}
	return r, lab.release(ctx, nodes...)
}

// asks runs srun or salloc as a user. The command prints the time of its first line.
func (l *lab) asks(argv ...string) (time.Duration, error) {
	submitted := time.Now()
	user := []string{"runuser", "-u", "alice", "--", "env", "-C", "/home/alice"}
	out, err := l.Command(cluster.ControlNodeName, append(user, argv...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("%v: %w", argv, err)
	}
	first, err := clock(string(out))
	return first.Sub(submitted), err
}

// arrayOn submits an array with a task for each of these nodes, and returns how long the last task's first line takes.
func (l *lab) arrayOn(ctx context.Context, nodes []string) (time.Duration, error) {
	submitted := time.Now()
	id, err := l.Submit(
		fmt.Sprintf("--array=1-%d", len(nodes)), "--exclusive", "--constraint=commands", "--output=/dev/null",
		"--exclude="+strings.Join(except(numbered(commandGroups(sizes{})[0], 1, 6), nodes), ","), "--wrap="+firstLine,
	)
	if err != nil {
		return 0, err
	}
	if _, err := l.registered(ctx, nodes...); err != nil {
		return 0, err
	}
	var latest time.Time
	for task := range len(nodes) {
		name := fmt.Sprintf("%s_%d", id, task+1)
		host, err := l.JobField(name, "BatchHost")
		if err != nil {
			return 0, err
		}
		job, err := l.JobField(name, "JobId")
		if err != nil {
			return 0, err
		}
		first, err := l.firstOf(ctx, job, host)
		if err != nil {
			return 0, err
		}
		if first.After(latest) {
			latest = first
		}
	}
	return latest.Sub(submitted), nil
}

// except returns the names that are not among others.
func except(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
}
