package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// together measures many nodes in one request, and many reboots at once.
func (b *bench) together(ctx context.Context) (report, error) {
	r := report{
		about: fmt.Sprintf("`reconfigure resume` of all nodes of a cluster that has none yet, in one request, with ports "+
			"that are kept and %d nodes in a Terraform state; then %d calls of `reconfigure update` at once, as Slurm's "+
			"RebootProgram makes them, of nodes that are as declared, so that they are rebooted. The cloud has nothing "+
			"behind its servers, and takes a second for each; Slurm's answers come from files; the real ansible-playbook "+
			"reads the playbooks and the inventory but runs no task. \"Own\" is the CPU time of reconfigure without Terraform, "+
			"its provider and Ansible. A node that is given up or fails in any way fails the benchmark.",
			b.sizes.perState, b.sizes.reboots),
		details: [][]string{{"nodes", "what", "wall", "CPU of all", "own CPU", "own CPU for each"}},
	}
	var first cost
	for i, size := range b.sizes.together {
		resumed, rebooted, err := b.allOf(ctx, size, i == len(b.sizes.together)-1)
		if err != nil {
			return r, fmt.Errorf("%d nodes: %w", size, err)
		}
		r.details = append(r.details, resumed.columns(size, "resume"))
		if i == 0 {
			first = resumed
			continue
		}
		base, more := b.sizes.together[0], float64(size)/float64(b.sizes.together[0])
		beside := func(d time.Duration) string { return fmt.Sprintf("%d nodes: %s", base, seconds(d)) }
		wall, cpu := times(resumed.wall, first.wall)/more, times(resumed.cpu.own, first.cpu.own)/more
		r.rows = append(r.rows,
			row{
				what: fmt.Sprintf("resume of %d nodes in one request", size), measured: seconds(resumed.wall),
				beside: beside(first.wall), ratio: ratio(wall) + " a node", goal: "<= 1.2 a node", met: wall <= 1.2,
			},
			row{
				what: fmt.Sprintf("own CPU for %d nodes", size), measured: seconds(resumed.cpu.own),
				beside: beside(first.cpu.own), ratio: ratio(cpu) + " a node", goal: "< 60 s", met: resumed.cpu.own < time.Minute,
			})
		if rebooted != nil {
			r.details = append(r.details, rebooted.columns(b.sizes.reboots, "reboot"))
			r.rows = append(r.rows, row{
				what:     fmt.Sprintf("%d reboots at once, until the last node is up", b.sizes.reboots),
				measured: seconds(rebooted.wall),
				beside:   "ResumeTimeout " + seconds(resumeTimeout), ratio: ratio(times(rebooted.wall, resumeTimeout)),
				goal: "< 1", met: rebooted.wall < resumeTimeout,
			})
		}
	}
	return r, nil
}

func (c cost) columns(nodes int, what string) []string {
	return []string{
		fmt.Sprint(nodes), what, seconds(c.wall), seconds(c.cpu.all), seconds(c.cpu.own),
		fmt.Sprintf("%.0f ms", float64(c.cpu.own.Milliseconds())/float64(nodes)),
	}
}

// allOf resumes all nodes of a new cluster, and then reboots some.
func (b *bench) allOf(ctx context.Context, size int, reboots bool) (resumed cost, rebooted *cost, err error) {
	b.say("make a cluster of %d nodes without instances", size)
	s, err := b.newSite(ctx, size, size)
	if err != nil {
		return cost{}, nil, err
	}
	defer func() {
		if closing := s.close(); err == nil {
			err = closing
		}
	}()
	if err := s.slurmSays("ALLOCATED", "CLOUD", "POWERING_UP"); err != nil {
		return cost{}, nil, err
	}
	taken() // do not count earlier processes
	begun := time.Now()
	nodes := fmt.Sprintf("%s[%04d-%04d]", sitePrefix, 1, size)
	if err := s.do(ctx, "resume", "--no-wait", nodes); err != nil {
		return cost{}, nil, err
	}
	if resumed, err = s.ended(ctx, begun); err != nil {
		return resumed, nil, err
	}
	b.say("%d nodes resumed: %s, own CPU %s", size, seconds(resumed.wall), seconds(resumed.cpu.own))
	if !reboots {
		return resumed, nil, nil
	}
	rebooted, err = s.reboots(ctx, min(size, b.sizes.reboots))
	if err == nil {
		b.say("%d reboots: %s, own CPU %s", b.sizes.reboots, seconds(rebooted.wall), seconds(rebooted.cpu.own))
	}
	return resumed, rebooted, err
}

// reboots has Slurm's RebootProgram call for the first n nodes at once.
func (s *site) reboots(ctx context.Context, n int) (*cost, error) {
	if err := s.slurmSays("IDLE", "CLOUD", "REBOOT_ISSUED"); err != nil {
		return nil, err
	}
	taken()
	begun := time.Now()
	_, err := atOnce(n, func(i int) *exec.Cmd { return s.call(ctx, "update", "--no-wait", nodeName(i+1)) })
	if err != nil {
		return nil, err
	}
	c, err := s.ended(ctx, begun)
	return &c, err
}

// ended waits until all requests have ended, and returns their durations. Each must have succeeded.
func (s *site) ended(ctx context.Context, begun time.Time) (c cost, err error) {
	if err := s.settled(ctx); err != nil {
		return c, err
	}
	c.wall = time.Since(begun)
	if c.cpu, err = s.worker(ctx); err != nil {
		return c, err
	}
	requests, err := s.journal.Requests(ctx, math.MaxInt)
	if err != nil {
		return c, err
	}
	for _, r := range requests {
		o, _, err := s.journal.Outcome(ctx, r.ID)
		if err != nil {
			return c, err
		}
		if o.Code != reconfigure.CodeDone {
			return c, fmt.Errorf("request %d, %s %s: %s %s", r.ID, r.Mode, r.Nodes, o.Code, o.Error)
		}
	}
	return c, nil
}
