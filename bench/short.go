package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// shortGroups has the persistent nodes on which the jobs run.
func shortGroups(sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("short", "short", 2, 2)}
}

// short measures what slurm.launch costs jobs whose nodes are up.
func (b *bench) short(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"%d jobs of 0 s, an array, on two persistent nodes, from sbatch until all have ended: in turns with "+
			"`launch: at_once` and with `launch: slurm`, that is with and without a PrologSlurmctld. Medians of %d rounds.",
		b.sizes.short, b.sizes.rounds,
	)}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	const with, without = atOnceLaunch, slurmLaunch
	took := map[string][]time.Duration{}
	now := ""
	for i := range b.sizes.rounds {
		order := []string{with, without}
		if i%2 == 1 { // so that a machine that gets slower favors neither, and half of the deploys change nothing
			slices.Reverse(order)
		}
		for _, launch := range order {
			if launch != now {
				if err := lab.launches(ctx, launch); err != nil {
					return r, err
				}
				if _, err := lab.array(ctx, 20); err != nil {
					return r, err
				}
				now = launch
			}
			t, err := lab.array(ctx, b.sizes.short)
			if err != nil {
				return r, fmt.Errorf("with launch: %s: %w", launch, err)
			}
			b.say("launch: %s: %d jobs in %s", launch, b.sizes.short, seconds(t))
			took[launch] = append(took[launch], t)
		}
	}
	a, s := median(took[with]), median(took[without])
	longer := times(a, s)
	r.rows = []row{{
		what: fmt.Sprintf("%d jobs of 0 s on nodes that are up", b.sizes.short), measured: seconds(a),
		beside: "with launch: slurm " + seconds(s), ratio: ratio(longer), goal: "<= 1.05", met: longer <= 1.05,
	}}
	r.details = [][]string{{"launch", "median", "smallest", "largest"}}
	for _, launch := range []string{with, without} {
		all := took[launch]
		r.details = append(r.details, []string{
			launch, seconds(median(all)), seconds(slices.Min(all)), seconds(slices.Max(all)),
		})
	}
	return r, nil
}

// launches deploys the cluster with this slurm.launch.
func (l *lab) launches(ctx context.Context, launch string) error {
	d := l.Declaration
	d.Slurm.Launch = launch
	// Many jobs at once: with one on each of the lab's few cores, Slurm's scheduler would be slower than the jobs.
	d.Partitions = slices.Clone(d.Partitions)
	d.Partitions[0].Slurm = map[string]any{"OverSubscribe": "FORCE:16"}
	if err := l.Declare(d); err != nil {
		return err
	}
	if err := l.call(ctx, "deploy"); err != nil {
		return err
	}
	out, err := l.Command(cluster.ControlNodeName, "scontrol", "show", "config").Output()
	if err != nil {
		return err
	}
	if runs := strings.Contains(string(out), "/launch.sh\n"); runs != (launch == atOnceLaunch) {
		return fmt.Errorf("with launch: %s slurmctld has another PrologSlurmctld:\n%s", launch, out)
	}
	return nil
}

// array runs jobs of 0 s on persistent nodes, and returns how long they take.
func (l *lab) array(ctx context.Context, jobs int) (time.Duration, error) {
	begun := time.Now()
	id, err := l.Submit(fmt.Sprintf("--array=1-%d", jobs), "--constraint=short", "--mem=10",
		"--output=/dev/null", "--wrap=true")
	if err != nil {
		return 0, err
	}
	var left string
	err = until(ctx, patience, 200*time.Millisecond, fmt.Sprintf("the %d jobs end", jobs), func() (bool, error) {
		out, err := l.Command(cluster.ControlNodeName, "squeue", "--noheader", "--format=%T", "--jobs="+id).Output()
		left = strings.TrimSpace(string(out))
		return err == nil && left == "", err
	})
	if err != nil {
		return 0, errors.Join(err, fmt.Errorf("left: %.200s", left))
	}
	return time.Since(begun), nil
}
