package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// cost has the times that a change of nodes took.
type cost struct {
	wall time.Duration
	cpu  usage
}

// size measures how long it takes to add a node to, and remove one from, clusters of several sizes.
func (b *bench) size(ctx context.Context) (report, error) {
	r := report{
		about: fmt.Sprintf("One node more (`reconfigure resume`) and one less (`reconfigure suspend`) in clusters all of "+
			"whose other nodes are up, with ports that are kept and %d nodes in a Terraform state. The cloud has nothing "+
			"behind its servers, Slurm's answers come from files, and the real ansible-playbook reads the playbooks and the "+
			"inventory but runs no task. Each call starts a worker. CPU is that of the call, the worker and all that it "+
			"starts. Medians of %d rounds. Ratios are to the smallest cluster.", b.sizes.perState, rounds),
		details: [][]string{{"nodes", "what", "wall", "ratio", "CPU", "ratio"}},
	}
	var first map[string]cost
	for _, size := range b.sizes.clusters {
		got, err := b.oneMoreIn(ctx, size)
		if err != nil {
			return r, fmt.Errorf("%d nodes: %w", size, err)
		}
		if first == nil {
			first = got
		}
		for _, what := range []string{"resume", "suspend"} {
			m, base := got[what], first[what]
			wall, cpu := times(m.wall, base.wall), times(m.cpu.all, base.cpu.all)
			r.details = append(r.details, []string{
				fmt.Sprint(size), what, seconds(m.wall), ratio(wall), seconds(m.cpu.all), ratio(cpu),
			})
			if size == b.sizes.clusters[0] {
				continue
			}
			beside := func(d time.Duration) string { return fmt.Sprintf("%d nodes: %s", b.sizes.clusters[0], seconds(d)) }
			r.rows = append(r.rows,
				row{
					what: fmt.Sprintf("%s one of %d nodes, wall", what, size), measured: seconds(m.wall), beside: beside(base.wall),
					ratio: ratio(wall), goal: "<= 1.5", met: wall <= 1.5,
				},
				row{
					what: fmt.Sprintf("%s one of %d nodes, CPU", what, size), measured: seconds(m.cpu.all),
					beside: beside(base.cpu.all),
					ratio:  ratio(cpu), goal: "<= 1.5", met: cpu <= 1.5,
				})
		}
	}
	return r, nil
}

// rounds is the number of changes measured in each cluster.
const rounds = 3

// oneMoreIn measures in a cluster of a size. It does not count the first round, since the product does some work only
// once.
func (b *bench) oneMoreIn(ctx context.Context, size int) (map[string]cost, error) {
	s, err := b.site(ctx, size)
	if err != nil {
		return nil, err
	}
	walls, cpus := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range 1 + rounds {
		for _, what := range []string{"resume", "suspend"} {
			m, err := s.change(ctx, what)
			if err != nil {
				return nil, err
			}
			b.say("%d nodes, %s, round %d: %s, %s CPU", size, what, round, seconds(m.wall), seconds(m.cpu.all))
			if round > 0 {
				walls[what], cpus[what] = append(walls[what], m.wall), append(cpus[what], m.cpu.all)
			}
		}
	}
	middle := map[string]cost{}
	for what := range walls {
		middle[what] = cost{median(walls[what]), usage{all: median(cpus[what])}}
	}
	return middle, nil
}

// change resumes or suspends the last node.
func (s *site) change(ctx context.Context, mode string) (cost, error) {
	state := []string{"IDLE", "CLOUD", "POWERING_UP"}
	if mode == "suspend" {
		state = []string{"IDLE", "CLOUD", "POWERING_DOWN"}
	}
	if err := s.slurmSays(state...); err != nil {
		return cost{}, err
	}
	taken() // do not count earlier processes
	call := s.call(ctx, mode, nodeName(s.size))
	begun := time.Now()
	out, err := call.CombinedOutput()
	wall := time.Since(begun)
	if err != nil {
		return cost{}, s.failed(mode, out, err)
	}
	if err := s.settled(ctx); err != nil {
		return cost{}, err
	}
	spent, err := s.worker(ctx)
	own := call.ProcessState.UserTime() + call.ProcessState.SystemTime()
	return cost{wall, usage{own: spent.own + own, all: spent.all + own}}, err
}

// worker returns the CPU time of the worker that carried out a request, after the worker has ended. A worker that ends
// before its caller counts as the caller's.
func (s *site) worker(ctx context.Context) (usage, error) {
	err := until(ctx, patience, 20*time.Millisecond, "the worker has ended", func() (bool, error) {
		left, err := procs.Find(procs.Variable(siteMark + "=" + s.dir))
		return len(left) == 0, err
	})
	return taken(), err
}
