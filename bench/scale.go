package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// published is how long AWS ParallelCluster needs for a number of nodes, from zero into the scheduler, as its project
// publishes it for its own tests.
var published = map[int]time.Duration{1000: 540 * time.Second}

// scale measures how long the nodes of a large job array need, with a real slurmd on each of them.
func (b *bench) scale(ctx context.Context) (_ report, err error) {
	r := report{about: "A job array has a task for each node, and none of the nodes has an instance. Each node is a " +
		"machine of the lab with Debian 13, its own sshd, munged and slurmd (Slurm 24.11), so that this machine carries " +
		"all nodes, slurmctld, the cloud and the control host. The group has `keep_ports: true`, and slurmctld runs " +
		"RebootProgram (`reboot_from_controller`), so the nodes need no key. AWS publishes 540 s for ParallelCluster, " +
		"Amazon's cloud and 1000 nodes (aws/aws-parallelcluster, results/baseline.json of test_scaling_stress_test). " +
		"The table has the CPU seconds of each program, from sbatch until all tasks run.",
	}
	sizes := slices.Sorted(slices.Values(b.sizes.scale))
	restore, err := raiseLimits()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	group := cluster.Group("scale", "n", 0, slices.Max(sizes))
	// Otherwise each node that comes up has an address that all others must get.
	keep := true
	group.KeepPorts = &keep
	lab, err := b.scaleLab(ctx, group)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	var all []scaled
	for _, size := range sizes {
		one, err := lab.scaleTo(ctx, filepath.Join(lab.Dir, "accounting"), numbered(group, 1, size))
		if err != nil {
			return r, fmt.Errorf("%d nodes: %w", size, err)
		}
		b.say("%d nodes: registered after %s, all tasks run after %s", size, seconds(one.registered), seconds(one.running))
		all = append(all, one)
		r.details = byProgram(all)
		r.rows = append(r.rows, one.row(), row{
			what: fmt.Sprintf("%d nodes, sbatch to the last task's first line", size), measured: seconds(one.running),
		}, row{
			what: fmt.Sprintf("%d nodes, cores that are busy", size), measured: ratio(times(one.busy, one.running)),
			beside: fmt.Sprintf("cores %d", runtime.NumCPU()),
			ratio:  ratio(times(one.busy, one.running) / float64(runtime.NumCPU())),
		})
	}
	return r, nil
}

// scaled is the result for one size.
type scaled struct {
	nodes               int
	registered, running time.Duration // from sbatch: the last slurmd has registered; the last task has written its line
	busy                time.Duration // of all cores
	programs            map[string]time.Duration
}

func (s scaled) row() row {
	one := row{
		what:     fmt.Sprintf("%d nodes, sbatch to the last slurmd registered", s.nodes),
		measured: seconds(s.registered),
	}
	if theirs, ok := published[s.nodes]; ok {
		one.beside, one.ratio = "ParallelCluster "+seconds(theirs), ratio(times(s.registered, theirs))
		one.goal, one.met = "< 1", s.registered < theirs
	}
	return one
}

// programs is the number of programs that a table names.
const programs = 12

// byProgram returns the table of the programs that use most CPU.
func byProgram(all []scaled) [][]string {
	last := all[len(all)-1].programs
	names := slices.SortedFunc(maps.Keys(last), func(a, b string) int { return cmp.Compare(last[b], last[a]) })
	names = names[:min(programs, len(names))]
	table := [][]string{{"program"}}
	for _, s := range all {
		table[0] = append(table[0], fmt.Sprintf("%d nodes", s.nodes))
	}
	line := func(name string, of func(scaled) time.Duration) {
		cells := []string{name}
		for _, s := range all {
			cells = append(cells, fmt.Sprintf("%.0f s", of(s).Seconds()))
		}
		table = append(table, cells)
	}
	for _, name := range names {
		line("`"+name+"`", func(s scaled) time.Duration { return s.programs[name] })
	}
	line("others, and parts of less than 10 ms", func(s scaled) time.Duration {
		rest := s.busy
		for _, name := range names {
			rest -= s.programs[name]
		}
		return rest
	})
	line("all", func(s scaled) time.Duration { return s.busy })
	return table
}

// scaleLab starts a lab of its own: it has more addresses than the lab of the other benchmarks, and another release of
// Debian.
func (b *bench) scaleLab(ctx context.Context, group cluster.NodeGroup) (*lab, error) {
	if b.real != nil {
		if err := b.real.close(); err != nil {
			return nil, err
		}
		b.real = nil
	}
	paths, variables, err := b.machines(ctx, trixie)
	if err != nil {
		return nil, err
	}
	b.say("start a lab and deploy a cluster of up to %d nodes", group.MaxNodes)
	return start(ctx, cluster.Config{
		Name: labName, Gateway: netip.MustParsePrefix("10.66.0.1/20"), Checkout: b.checkout, Tools: paths,
		Groups:    []cluster.NodeGroup{cluster.Group("base", "base", 1, 1), group},
		Variables: variables, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, func(d cluster.Declaration) cluster.Declaration {
		d = declared(d)
		d.Slurm.ResumeTimeout = 1800
		d.Slurm.ControllerParameters = append(slices.Clone(d.Slurm.ControllerParameters), "reboot_from_controller")
		d.Reconfigure["boot_timeout"] = 1200
		return d
	})
}

// scaleTo submits an array with a task for each of the nodes, waits until all tasks run, and removes the nodes.
func (l *lab) scaleTo(ctx context.Context, accounting string, nodes []string) (s scaled, err error) {
	s.nodes = len(nodes)
	if err := l.settled(ctx); err != nil {
		return s, err
	}
	account, err := startAccounting(accounting)
	if err != nil {
		return s, err
	}
	begun := time.Now()
	job, err := l.Submit(
		fmt.Sprintf("--array=1-%d", len(nodes)), "--exclusive", "--nodes=1", "--constraint=scale", "--output=/dev/null",
		"--wrap=date +%s.%N >/tmp/first-$SLURM_ARRAY_JOB_ID; exec sleep 36000",
	)
	var came map[string]time.Time
	if err == nil {
		came, err = l.registered(ctx, nodes...)
	}
	if err == nil {
		err = l.tasksRun(ctx, job, len(nodes))
	}
	used, stopped := account.stop()
	if err = errors.Join(err, stopped); err != nil {
		return s, err
	}
	s.registered, s.busy, s.programs = last(came, nodes).Sub(begun), used.busy, used.programs
	line, err := l.lastLine(ctx, job, nodes)
	if err != nil {
		return s, err
	}
	s.running = line.Sub(begun)
	return s, l.release(ctx, nodes...)
}

// tasksRun waits until slurmctld runs this number of tasks of a job.
func (l *lab) tasksRun(ctx context.Context, job string, tasks int) error {
	running := 0
	err := until(ctx, patience, time.Second, fmt.Sprintf("%d tasks run", tasks), func() (bool, error) {
		out, err := l.Command(
			cluster.ControlNodeName, "squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i", "--jobs="+job,
		).Output()
		running = strings.Count(string(out), "\n")
		return err == nil && running == tasks, err
	})
	if err != nil {
		return errors.Join(err, fmt.Errorf("%d tasks run", running))
	}
	return nil
}

// lastLine returns when the last task of an array wrote its first line.
func (l *lab) lastLine(ctx context.Context, job string, nodes []string) (last time.Time, err error) {
	at := make([]time.Time, len(nodes))
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(2 * runtime.NumCPU())
	for i, node := range nodes {
		each.Go(func() (err error) {
			at[i], err = l.firstOf(ctx, job, node)
			return err
		})
	}
	err = each.Wait()
	return slices.MaxFunc(at, time.Time.Compare), err
}

// raiseLimits lets the kernel have as many processes and neighbours (arp(7)) as a thousand machines need. It returns a
// function that restores the limits.
func raiseLimits() (restore func() error, err error) {
	const neighbours = "/proc/sys/net/ipv4/neigh/default/"
	before := map[string]string{}
	restore = func() (err error) {
		for file, text := range before {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0))
		}
		return err
	}
	for file, least := range map[string]int{
		"/proc/sys/kernel/pid_max": 1 << 17, neighbours + "gc_thresh1": 1 << 13, neighbours + "gc_thresh2": 1 << 14,
		neighbours + "gc_thresh3": 1 << 15,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.Join(err, restore())
		}
		now, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read %s: %w", file, err), restore())
		}
		if now >= least {
			continue
		}
		before[file] = string(text)
		if err := os.WriteFile(file, []byte(strconv.Itoa(least)), 0); err != nil {
			return nil, errors.Join(err, restore())
		}
	}
	return restore, nil
}
