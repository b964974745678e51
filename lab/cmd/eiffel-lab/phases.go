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
		if err != nil {
			return err
		}
		end := "not ended"
		if ended {
			end = fmt.Sprintf("%.1f s in all", outcome.Finished.Sub(r.Submitted).Seconds())
		}
		fmt.Fprintf(d.out, "%10srequest %s, %s %s: %s; %s\n", "", r.ID, r.Mode, r.Nodes, spans(events), end)
	}
	return nil
}

// spans is, for each phase, the time from its first begin to its last end.
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
		if end, ok := done[phase]; ok {
			parts = append(parts, fmt.Sprintf("%s %.1f s", phase, end.Sub(begun[phase]).Seconds()))
		}
	}
	return strings.Join(parts, ", ")
}
