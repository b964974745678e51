package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// bench is one run.
type bench struct {
	out      io.Writer
	begun    time.Time
	checkout string
	chosen   []benchmark
	release  string // of Debian, on the lab's machines
	sizes    sizes

	real  *lab          // nil: not started
	sites map[int]*site // by size
}

// say prints the current step.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.1f s  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// other returns a bench with a lab of its own: with machines of a Debian release, and a group for each function.
func (b *bench) other(release string, groups ...func(sizes) []cluster.NodeGroup) *bench {
	other := &bench{out: b.out, begun: b.begun, checkout: b.checkout, release: release, sizes: b.sizes}
	for _, g := range groups {
		other.chosen = append(other.chosen, benchmark{groups: g})
	}
	return other
}

func (b *bench) close() error {
	var errs []error
	for _, s := range b.sites {
		errs = append(errs, s.close())
	}
	if b.real != nil {
		errs = append(errs, b.real.close())
	}
	return errors.Join(errs...)
}

// lab is a deployed cluster with real machines and a real Slurm.
type lab struct {
	*cluster.Lab
	checkout string
	journal  *journal.Journal
	deployed time.Duration        // of the first deploy
	woken    map[string]time.Time // when registered saw last that slurmctld powers up a node
}

// labName is the lab's name. A second run on the same machine stops the lab of the first, since two labs would disturb
// each other.
const labName = "bench"

// lab returns the lab that all benchmarks share, deployed with all groups that they need.
func (b *bench) lab(ctx context.Context) (*lab, error) {
	if b.real != nil {
		return b.real, nil
	}
	paths, variables, err := b.machines(ctx, b.release)
	if err != nil {
		return nil, err
	}
	// A deploy needs a persistent node.
	groups := []cluster.NodeGroup{cluster.Group("base", "base", 1, 1)}
	for _, one := range b.chosen {
		if one.groups != nil {
			groups = append(groups, one.groups(b.sizes)...)
		}
	}
	b.say("start a lab and deploy a cluster")
	b.real, err = start(ctx, cluster.Config{
		Name: labName, Gateway: netip.MustParsePrefix("10.66.0.1/24"), Checkout: b.checkout, Tools: paths, Groups: groups,
		Variables: variables, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, declared)
	return b.real, err
}

// The Debian releases of a lab's machines.
const (
	bookworm = "bookworm" // with Slurm 22.05
	trixie   = "trixie"   // with Slurm 24.11
)

// machines returns the tools for machines of a Debian release, whose image it builds if needed, and the variables that
// they need.
func (b *bench) machines(ctx context.Context, release string) (paths tools.Paths, variables string, err error) {
	paths, err = tools.Find(b.checkout)
	if err != nil || release == bookworm {
		return paths, "", err
	}
	base := image.Base{Release: release}
	paths.Image = filepath.Join(filepath.Dir(paths.Image), release+"-sysvinit")
	if !base.IsCurrent(paths.Image) {
		b.say("build the image of Debian 13")
		err = base.Build(ctx, paths.Image)
	}
	return paths, "slurm_cgroup_conf: CgroupPlugin=disabled\n", err // these machines have no control groups
}

// start starts a lab and deploys its cluster, with a changed declaration.
func start(
	ctx context.Context, cfg cluster.Config, change func(cluster.Declaration) cluster.Declaration,
) (_ *lab, err error) {
	started, err := cluster.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := &lab{Lab: started, checkout: cfg.Checkout, woken: map[string]time.Time{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := l.Declare(change(l.Declaration)); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := l.call(ctx, "deploy"); err != nil {
		return nil, err
	}
	l.deployed = time.Since(begun)
	if l.journal, err = journal.Open(ctx, l.StateDir()); err != nil {
		return nil, err
	}
	return l, nil
}

// declared returns the lab's declaration, with the product's own settings in place of those for tests.
func declared(d cluster.Declaration) cluster.Declaration {
	d.Reconfigure["parallelism"] = 50
	d.Reconfigure["boot_timeout"] = 300
	d.Slurm.SuspendTimeout = 10
	d.Slurm.SuspendTime = 3600 // the benchmarks remove nodes themselves
	// With the tests' sched_interval of five seconds, most jobs would wait for batch_sched_delay.
	d.Slurm.Extra = maps.Clone(d.Slurm.Extra)
	delete(d.Slurm.Extra, "SchedulerParameters")
	return d
}

func (l *lab) close() error {
	var err error
	if l.journal != nil {
		err = l.journal.Close()
	}
	return errors.Join(err, l.Lab.Close())
}

// until polls for a condition.
func until(ctx context.Context, longest, pause time.Duration, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("not within %s: %s", longest, what))
	defer cancel()
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// patience limits each wait, and each node of many makes the wait for all a second longer. A longer wait is an error.
const patience = 10 * time.Minute

// registered waits until slurmd has registered on all nodes, and returns the time of each. It also notes when slurmctld
// has begun to power them up. It asks less often about hundreds of nodes, since the answer is work for slurmctld.
func (l *lab) registered(ctx context.Context, nodes ...string) (map[string]time.Time, error) {
	came := map[string]time.Time{}
	for _, node := range nodes {
		delete(l.woken, node)
	}
	longest := patience + time.Duration(len(nodes))*time.Second
	pause := max(150*time.Millisecond, time.Duration(len(nodes))*time.Millisecond)
	err := until(ctx, longest, pause, fmt.Sprintf("slurmd of %v registers", nodes), func() (bool, error) {
		states, err := l.states()
		if err != nil {
			return false, err
		}
		now := time.Now()
		for _, node := range nodes {
			if l.woken[node].IsZero() && strings.Contains(states[node], "+POWERING_UP") {
				l.woken[node] = now
			}
			if _, known := came[node]; !known && up(states[node]) {
				came[node] = now
			}
		}
		return len(came) == len(nodes), nil
	})
	return came, err
}

// up reports whether slurmd of a node has registered and no reboot is under way.
func up(state string) bool {
	flags := strings.Split(state, "+")
	base := flags[0]
	return (base == "IDLE" || base == "MIXED" || base == "ALLOCATED") && !slices.ContainsFunc(
		flags[1:], func(f string) bool { return f != "CLOUD" && f != "DRAIN" && f != "PLANNED" },
	)
}

// states returns each node's state in Slurm.
func (l *lab) states() (map[string]string, error) {
	out, err := l.Command(cluster.ControlNodeName, "scontrol", "--oneliner", "show", "nodes").Output()
	if err != nil {
		return nil, fmt.Errorf("scontrol show nodes: %w", err)
	}
	states := map[string]string{}
	for line := range strings.Lines(string(out)) {
		var name string
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "NodeName":
				name = value
			case "State":
				states[name] = value
			}
		}
	}
	return states, nil
}

// settled waits until every request has its outcome and no worker runs.
func (l *lab) settled(ctx context.Context) error {
	return until(ctx, patience, 100*time.Millisecond, "no request is open and no worker is left", func() (bool, error) {
		pending, err := l.journal.Pending(ctx)
		return err == nil && len(pending) == 0 && l.journal.Holder(ctx) == "", err
	})
}

// call runs the tool, which must succeed.
func (l *lab) call(ctx context.Context, args ...string) error {
	if out, err := l.Reconfigure(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("reconfigure %v: %w\n%s", args, err, out)
	}
	return nil
}

// slurm runs a command as root on the control node.
func (l *lab) slurm(argv ...string) error {
	if out, err := l.Command(cluster.ControlNodeName, argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// release ends all jobs, lets Slurm power down nodes, and waits until they have no instance.
func (l *lab) release(ctx context.Context, nodes ...string) error {
	if err := l.slurm("scancel", "--user=alice"); err != nil {
		return err
	}
	if err := l.slurm("scontrol", "update", "NodeName="+strings.Join(nodes, ","), "State=POWER_DOWN"); err != nil {
		return err
	}
	err := until(ctx, patience, 300*time.Millisecond, fmt.Sprintf("%v are powered down", nodes), func() (bool, error) {
		states, err := l.states()
		if err != nil {
			return false, err
		}
		there := map[string]bool{}
		for _, s := range l.Cloud.Servers() {
			there[s.Name] = true
		}
		return !slices.ContainsFunc(nodes, func(node string) bool {
			return states[node] != "IDLE+CLOUD+POWERED_DOWN" || there[node]
		}), nil
	})
	return errors.Join(err, l.settled(ctx))
}

// newest returns the newest request that names a node.
func (l *lab) newest(ctx context.Context, mode reconfigure.Mode, node string) (reconfigure.Request, error) {
	requests, err := l.journal.Requests(ctx, 1000)
	if err != nil {
		return reconfigure.Request{}, err
	}
	for _, r := range requests {
		if r.Mode == mode && r.Nodes.Contains(node) {
			return r, nil
		}
	}
	return reconfigure.Request{}, fmt.Errorf("the journal has no %s of %s", mode, node)
}

// entered returns the time at which each phase of the operation on a node for a request began, and the end of the last
// phase.
func (l *lab) entered(ctx context.Context, r reconfigure.Request, node string) (
	begun map[reconfigure.Phase]time.Time, ended time.Time, err error,
) {
	events, err := l.journal.Events(ctx, r.ID, 0)
	begun = map[reconfigure.Phase]time.Time{}
	for _, e := range events {
		if e.Node != node {
			continue
		}
		if e.Level == reconfigure.Begun && begun[e.Phase].IsZero() {
			begun[e.Phase] = e.Time
		}
		ended = e.Time
	}
	return begun, ended, err
}

// numbered returns the names of a group's nodes in a range of numbers.
func numbered(g cluster.NodeGroup, first, last int) []string {
	var all []string
	for i := first; i <= last; i++ {
		all = append(all, fmt.Sprintf("%s%0*d", g.Prefix, g.Width, i))
	}
	return all
}
