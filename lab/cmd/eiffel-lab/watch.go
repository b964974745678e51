package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// watch prints a row whenever the state of the job or of one of its nodes changes, until the job is done and the nodes' instances are gone.
func (d *demo) watch(ctx context.Context, job string, nodes ...string) error {
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fmt.Fprintf(d.out, "%8s  %-12s", "", "JOB "+job)
	for _, node := range nodes {
		fmt.Fprintf(d.out, "%-56s", strings.ToUpper(node))
	}
	fmt.Fprintln(d.out)
	var last []string
	for {
		now, err := d.states(job, nodes)
		if err == nil && !slices.Equal(now, last) {
			fmt.Fprintf(d.out, "%6.1f s  %-12s", time.Since(d.begun).Seconds(), now[0])
			for _, state := range now[1:] {
				fmt.Fprintf(d.out, "%-56s", state)
			}
			fmt.Fprintln(d.out)
			last = now
		}
		if err == nil && now[0] == "COMPLETED" && gone(now[1:]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("job %s and its nodes did not get to the end: %v, %w", job, last, ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func gone(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(s string) bool {
		return !strings.HasSuffix(s, "no instance") || !strings.Contains(s, "POWERED_DOWN")
	})
}

// states is the job's state, then each node's by Slurm and by the cloud.
func (d *demo) states(job string, nodes []string) ([]string, error) {
	state, err := d.lab.JobState(job)
	if err != nil {
		return nil, err
	}
	row := []string{state}
	servers := map[string]string{}
	for _, s := range d.lab.Cloud.Servers() {
		servers[s.Name] = s.Status
	}
	for _, node := range nodes {
		slurm, err := d.lab.NodeState(node)
		if err != nil {
			return nil, err
		}
		instance, ok := servers[node]
		if !ok {
			instance = "no instance"
		}
		row = append(row, slurm+", "+instance)
	}
	return row, nil
}

// phases prints how long each phase of each request took, by the journal.
func (d *demo) phases(ctx context.Context) error {
	log, err := journal.Open(ctx, d.lab.StateDir())
	if err != nil {
		return err
	}
	defer log.Close()
	requests, err := log.Requests(ctx, 100)
	if err != nil {
		return err
	}
	slices.Reverse(requests)
	d.say("how long each phase took, by the journal:")
	for _, r := range requests {
		events, err := log.Events(ctx, r.ID, 0)
		if err != nil {
			return err
		}
		outcome, ended, err := log.Outcome(ctx, r.ID)
		if err != nil || !ended {
			return fmt.Errorf("request %d has no outcome: %w", r.ID, err)
		}
		fmt.Fprintf(d.out, "%10srequest %d, %s %s: %s; %.1f s in all\n", "", r.ID, r.Mode, r.Nodes, spans(events), outcome.Finished.Sub(r.Submitted).Seconds())
	}
	return nil
}

// spans sums up, for each phase, the time from its first begin to its last end.
func spans(events []reconfigure.Event) string {
	var order []reconfigure.Phase
	begun, done := map[reconfigure.Phase]time.Time{}, map[reconfigure.Phase]time.Time{}
	for _, e := range events {
		switch e.Level {
		case reconfigure.Begun:
			if _, ok := begun[e.Phase]; !ok {
				begun[e.Phase] = e.Time
				order = append(order, e.Phase)
			}
		case reconfigure.Done, reconfigure.Failed:
			done[e.Phase] = e.Time
		}
	}
	var parts []string
	for _, phase := range order {
		parts = append(parts, fmt.Sprintf("%s %.1f s", phase, done[phase].Sub(begun[phase]).Seconds()))
	}
	return strings.Join(parts, ", ")
}
