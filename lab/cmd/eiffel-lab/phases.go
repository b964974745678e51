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

// phases prints the duration of each phase of each request, as the journal has it. It waits for open requests.
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
		outcome, err := d.outcome(ctx, log, r.ID)
		if err != nil {
			return err
		}
		events, err := log.Events(ctx, r.ID, 0)
		if err != nil {
			return err
		}
		what := strings.TrimSpace(fmt.Sprintf("%s %s", r.Mode, r.Nodes))
		parts := append(spans(events), fmt.Sprintf("%.1f s in all", outcome.Finished.Sub(r.Submitted).Seconds()))
		fmt.Fprintf(d.out, "%10srequest %s, %s: %s\n", "", r.ID, what, strings.Join(parts, ", "))
	}
	return nil
}

// outcome follows a request to its outcome.
func (d *demo) outcome(
	ctx context.Context, log *journal.Journal, id reconfigure.RequestID,
) (reconfigure.Outcome, error) {
	outcome, ended, err := log.Outcome(ctx, id)
	if err != nil || ended {
		return outcome, err
	}
	// Its exit code is that of the request, which a scene may expect to fail.
	said, failed := d.lab.Reconfigure(ctx, "wait", fmt.Sprint(id)).CombinedOutput()
	if outcome, ended, err = log.Outcome(ctx, id); err == nil && !ended {
		err = fmt.Errorf("reconfigure wait %s: %w\n%s", id, failed, said)
	}
	return outcome, err
}

// spans has, for each phase, the time from its first begin to its last end.
func spans(events []reconfigure.Event) (parts []string) {
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
	for _, phase := range order {
		if end, ok := done[phase]; ok {
			parts = append(parts, fmt.Sprintf("%s %.1f s", phase, end.Sub(begun[phase]).Seconds()))
		}
	}
	return parts
}
