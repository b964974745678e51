package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// straggleGroups has the nodes that are resumed together, and one node for the next request.
func straggleGroups(s sizes) []cluster.NodeGroup {
	return []cluster.NodeGroup{cluster.Group("straggle", "s", 0, s.straggle+1)}
}

// straggle has the times of one round, in which many nodes are made or removed together, and then one more.
type straggle struct {
	others time.Duration // until the last healthy node is done
	next   split         // of the request that comes while the bad node is still under way
}

// stragglers measures how much one bad node delays the others.
func (b *bench) stragglers(ctx context.Context) (report, error) {
	r := report{about: fmt.Sprintf(
		"%d nodes together, of which one boots a minute late, never leaves BUILD, or is never deleted. The others' time is "+
			"compared with the mean of two rounds without a fault, the first and the last one. \"next\" is a job on one more "+
			"node, from sbatch to its first line, which is submitted when the others are done and the straggler is not.",
		b.sizes.straggle,
	)}
	lab, err := b.lab(ctx)
	if err != nil {
		return r, err
	}
	before, err := b.plain(ctx, lab)
	if err != nil {
		return r, err
	}
	type measured struct {
		kind  labcloud.Kind
		phase string
		got   straggle
	}
	var faults []measured
	var failed []error
	for _, m := range []measured{
		{kind: labcloud.SlowBoot, phase: "resume"}, {kind: labcloud.StuckBuild, phase: "resume"},
		{kind: labcloud.StuckDelete, phase: "suspend"},
	} {
		got, err := lab.straggle(ctx, b.sizes, m.kind)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.kind, err))
			continue
		}
		m.got = got[m.phase]
		b.say("%s: the others after %s, the next after %s", m.kind, seconds(m.got.others), seconds(m.got.next.first))
		faults = append(faults, m)
	}
	after, err := b.plain(ctx, lab)
	if err != nil {
		return r, errors.Join(append(failed, err)...)
	}
	columns := []split{before["resume"].next, before["suspend"].next}
	titles := []string{"after a resume", "after a suspend"}
	for _, m := range faults {
		columns, titles = append(columns, m.got.next), append(titles, string(m.kind))
		others := mean(before[m.phase].others, after[m.phase].others)
		next := mean(before[m.phase].next.first, after[m.phase].next.first)
		longer := times(m.got.others, others)
		r.rows = append(r.rows,
			row{
				what:     fmt.Sprintf("%s of %d, one %s: the others", m.phase, b.sizes.straggle, m.kind),
				measured: seconds(m.got.others), beside: "without " + seconds(others), ratio: ratio(longer),
				goal: "<= 1.05", met: longer <= 1.05,
			},
			row{
				what: "the next job beside it, to its first line", measured: seconds(m.got.next.first),
				beside: "without " + seconds(next), ratio: ratio(times(m.got.next.first, next)),
				goal: "<= 15 s more", met: m.got.next.first-next <= 15*time.Second,
			})
	}
	r.details = sideBySide(titles, columns)
	return r, errors.Join(failed...)
}

// plain measures a round without a fault.
func (b *bench) plain(ctx context.Context, lab *lab) (map[string]straggle, error) {
	got, err := lab.straggle(ctx, b.sizes, "")
	if err != nil {
		return nil, fmt.Errorf("without a fault: %w", err)
	}
	b.say("without a fault: resumed after %s, the next after %s, removed after %s, the next after %s",
		seconds(got["resume"].others), seconds(got["resume"].next.first), seconds(got["suspend"].others),
		seconds(got["suspend"].next.first))
	return got, nil
}

func mean(a, b time.Duration) time.Duration { return (a + b) / 2 }

// straggle measures one round of "resume" or "suspend", with or without a fault in one node.
func (l *lab) straggle(ctx context.Context, s sizes, kind labcloud.Kind) (got map[string]straggle, err error) {
	group := straggleGroups(s)[0]
	all, next := numbered(group, 1, s.straggle), numbered(group, s.straggle+1, s.straggle+1)[0]
	bad := all[len(all)/3]
	others := slices.DeleteFunc(slices.Clone(all), func(node string) bool { return node == bad })
	if kind != "" {
		fault := labcloud.Fault{Kind: kind, Server: bad, Count: 1000}
		if kind == labcloud.SlowBoot {
			fault.Seconds, fault.Count = 60, 1
		}
		if _, err := l.Cloud.Faults().Add(fault); err != nil {
			return nil, err
		}
	}
	defer func() {
		l.Cloud.Faults().Clear(0)
		err = errors.Join(err, l.settled(ctx), l.release(ctx, append(slices.Clone(all), next)...))
	}()
	got = map[string]straggle{}
	begun := time.Now()
	if _, err := l.Submit(
		fmt.Sprintf("--nodes=%d", len(all)), "--nodelist="+strings.Join(all, ","), "--output=/dev/null", "--wrap=sleep 3600",
	); err != nil {
		return nil, err
	}
	comes := others
	if kind == "" || kind == labcloud.StuckDelete {
		comes = all
	}
	came, err := l.registered(ctx, comes...)
	if err != nil {
		return nil, err
	}
	round := straggle{others: last(came, others).Sub(begun)}
	if kind != labcloud.StuckDelete {
		if round.next, err = l.jobOn(ctx, next); err != nil {
			return nil, err
		}
	}
	got["resume"] = round
	if kind != "" && kind != labcloud.StuckDelete {
		return got, nil
	}
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	if kind == "" { // the next node is resumed during the removal
		if err := l.release(ctx, next); err != nil { // and all its jobs end
			return nil, err
		}
	}
	if err := l.slurm("scancel", "--user=alice"); err != nil {
		return nil, err
	}
	begun = time.Now()
	if err := l.slurm("scontrol", "update", "NodeName="+strings.Join(all, ","), "State=POWER_DOWN"); err != nil {
		return nil, err
	}
	if err := l.gone(ctx, others...); err != nil {
		return nil, err
	}
	round = straggle{others: time.Since(begun)}
	if round.next, err = l.jobOn(ctx, next); err != nil {
		return nil, err
	}
	got["suspend"] = round
	return got, nil
}

// gone waits until the cloud has no servers of the nodes.
func (l *lab) gone(ctx context.Context, nodes ...string) error {
	return until(ctx, patience, 100*time.Millisecond, fmt.Sprintf("%v have no instance", nodes), func() (bool, error) {
		return !slices.ContainsFunc(l.Cloud.Servers(), func(s labcloud.Server) bool {
			return slices.Contains(nodes, s.Name)
		}), nil
	})
}

// last returns the time at which the last of the nodes came up.
func last(came map[string]time.Time, nodes []string) time.Time {
	var newest time.Time
	for _, node := range nodes {
		if came[node].After(newest) {
			newest = came[node]
		}
	}
	return newest
}

// first returns the time at which the first node came up.
func first(came map[string]time.Time) time.Time {
	var oldest time.Time
	for _, at := range came {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}
