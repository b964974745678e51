package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// launchGroups has a node for each job.
func launchGroups(s sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("launch", "l", 0, s.launch)}
}

// launchEvery is the time between two jobs. slurmctld's timer has 30 seconds, and the jobs come at all of its times.
const launchEvery = 1500 * time.Millisecond

// bin is the width of the histogram's bars.
const bin = 5 * time.Second

// launch compares the time to the first line of many jobs with `launch: at_once` and with `launch: slurm`.
func (b *bench) launch(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"%d batch jobs, one every %s, each of which needs a node without an instance: from sbatch to the first line, with "+
			"`launch: at_once` and with `launch: slurm`. The table has the number of jobs by that time.",
		b.sizes.launch, launchEvery,
	)}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	came := map[string][]time.Duration{}
	for _, how := range []string{atOnceLaunch, slurmLaunch} {
		if how != atOnceLaunch || lab.Declaration.Slurm.Launch != "" { // it is the default
			if err := lab.launches(ctx, how); err != nil {
				return r, err
			}
		}
		if came[how], err = lab.jobsInTurn(ctx, numbered(launchGroups(b.sizes)[0], 1, b.sizes.launch)); err != nil {
			return r, fmt.Errorf("with launch: %s: %w", how, err)
		}
		b.say("launch: %s: first line after %s (median)", how, seconds(median(came[how])))
	}
	with, without := median(came[atOnceLaunch]), median(came[slurmLaunch])
	faster := times(with, without)
	r.rows = []row{{
		what: fmt.Sprintf("%d jobs, sbatch to the first line, median", b.sizes.launch), measured: seconds(with),
		beside: "with launch: slurm " + seconds(without), ratio: ratio(faster), goal: "<= 0.5", met: faster <= 0.5,
		value: with.Seconds(),
	}}
	r.details = histogram(came)
	return r, nil
}

// The values of slurm.launch.
const atOnceLaunch, slurmLaunch = "at_once", "slurm"

// jobsInTurn submits a job for each node, one after another, and returns how long each takes to its first line.
func (l *lab) jobsInTurn(ctx context.Context, nodes []string) (took []time.Duration, err error) {
	jobs, submitted := map[string]string{}, map[string]time.Time{}
	ticks := time.NewTicker(launchEvery)
	defer ticks.Stop()
	for _, node := range nodes {
		submitted[node] = time.Now()
		if jobs[node], err = l.Submit("--nodelist="+node, "--output=/dev/null", "--wrap="+firstLine); err != nil {
			return nil, err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for _, node := range nodes {
		first, err := l.firstOf(ctx, jobs[node], node)
		if err != nil {
			return nil, err
		}
		took = append(took, first.Sub(submitted[node]))
	}
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	return took, l.release(ctx, nodes...)
}

// histogram returns a table of the number of jobs by the time to their first line.
func histogram(came map[string][]time.Duration) [][]string {
	longest := max(slices.Max(came[atOnceLaunch]), slices.Max(came[slurmLaunch]))
	table := [][]string{{"first line after", "launch: " + atOnceLaunch, "launch: " + slurmLaunch}}
	for from := time.Duration(0); from <= longest; from += bin {
		line := []string{fmt.Sprintf("%.0f to %.0f s", from.Seconds(), (from + bin).Seconds())}
		for _, how := range []string{atOnceLaunch, slurmLaunch} {
			n := 0
			for _, t := range came[how] {
				if t >= from && t < from+bin {
					n++
				}
			}
			line = append(line, fmt.Sprint(n))
		}
		table = append(table, line)
	}
	return table
}
