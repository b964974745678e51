package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// LivesOf returns the lives that a filter selects, by node, then in the order of their creation.
func (j *Journal) LivesOf(ctx context.Context, f reconfigure.LifeFilter) (lives []reconfigure.Life, err error) {
	err = j.access(ctx, func() error {
		for _, l := range j.lives {
			if !l.Made.After(f.Until) && (!l.Ended() || !l.Removed.Before(f.Since)) &&
				(len(f.Nodes) == 0 || slices.Contains(f.Nodes, l.Node)) && (f.Host == "" || l.Host == f.Host) &&
				(f.Image == "" || l.Image == f.Image) {
				lives = append(lives, l)
			}
		}
		slices.SortFunc(lives, func(a, b reconfigure.Life) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), a.Made.Compare(b.Made), cmp.Compare(a.Instance, b.Instance),
				cmp.Compare(a.Plan, b.Plan))
		})
		return nil
	})
	return lives, err
}

// FailuresOf returns the failures of nodes between two times, in order; without nodes, of all.
func (j *Journal) FailuresOf(
	ctx context.Context, since, until time.Time, nodes ...string,
) (failures []reconfigure.Event, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.events {
			if e.Level == reconfigure.Failed && e.Node != "" && !e.Time.Before(since) && !e.Time.After(until) &&
				(len(nodes) == 0 || slices.Contains(nodes, e.Node)) {
				failures = append(failures, e)
			}
		}
		return nil
	})
	return failures, err
}

// NodesWithLives returns the nodes that had an instance between two times.
func (j *Journal) NodesWithLives(ctx context.Context, since, until time.Time) (nodes []string, err error) {
	lives, err := j.LivesOf(ctx, reconfigure.LifeFilter{Since: since, Until: until})
	for _, l := range lives {
		nodes = append(nodes, l.Node)
	}
	return slices.Compact(nodes), err
}

// RunsBetween returns the runs of jobs between two times; none, and false, if there are more than limit.
func (j *Journal) RunsBetween(
	ctx context.Context, since, until time.Time, limit int,
) (runs []reconfigure.JobRun, all bool, err error) {
	runs, err = j.JobRuns(ctx, since)
	runs = slices.DeleteFunc(runs, func(r reconfigure.JobRun) bool { return r.Submitted.After(until) })
	if err != nil || len(runs) > limit {
		return nil, false, err
	}
	return runs, true, nil
}

// Pulse returns a text that changes when an event, a request or an outcome is written.
func (j *Journal) Pulse(ctx context.Context) (pulse string, err error) {
	err = j.access(ctx, func() error {
		open, event := 0, int64(0)
		for _, e := range j.requests {
			if e.outcome == nil {
				open++
			}
		}
		if n := len(j.events); n > 0 {
			event = j.events[n-1].ID
		}
		pulse = fmt.Sprintf("%d-%d-%d", event, j.changes, open)
		return nil
	})
	return pulse, err
}
