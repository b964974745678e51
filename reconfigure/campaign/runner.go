package campaign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Journal is what a Runner reads and writes; journal.Journal has the contracts.
type Journal interface {
	Campaign(ctx context.Context) (reconfigure.Campaign, bool, error)
	AdvanceCampaign(
		ctx context.Context, id reconfigure.CampaignID,
		update func(reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error),
	) ([]reconfigure.Request, error)
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error)
}

// Tester runs the site's test job on one node. Each call may be repeated.
type Tester interface {
	// Reserve keeps new jobs off a node until Release; running jobs continue.
	Reserve(ctx context.Context, name, node string) error
	// Test submits the test job under that name to the reserved node, unless that was done before, and returns its
	// state.
	Test(
		ctx context.Context, name, node, partition string, limit time.Duration,
	) (ended bool, failure string, err error)
	// Release ends the reservation, and the test job with it. It succeeds if neither exists.
	Release(ctx context.Context, name string) error
	// Drain makes Slurm start no more jobs on nodes. It is for a node whose test failed.
	Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error
}

// Site is a declared cluster, with the calls that a campaign needs.
type Site struct {
	Cluster reconfigure.Cluster
	Observe func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error)
	Tester  func(control reconfigure.Instance) Tester
}

// Runner advances the newest campaign of a journal. If it is killed at any point, another Runner continues.
type Runner struct {
	Journal Journal
	// Open reads the declaration.
	Open func(ctx context.Context) (Site, error)
}

const (
	// again is the interval of snapshots, ask the interval of the canary's questions to Slurm.
	again = 10 * time.Second
	ask   = 2 * time.Second
	// patience is how long a test job may wait to start, in addition to its time limit.
	patience = 5 * time.Minute
)

// Step advances the campaign as far as possible now. It returns the latest time for the next call; stay is false if
// there is nothing to do until a caller changes the campaign. Call it also when a request has ended. It may be retried
// after an error.
func (r Runner) Step(ctx context.Context) (next time.Duration, stay bool, err error) {
	c, there, err := r.Journal.Campaign(ctx)
	if err != nil || !there {
		return again, err != nil, err
	}
	f := Facts{Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{}}
	for _, id := range c.Open {
		o, ended, err := r.Journal.Outcome(ctx, id)
		if err != nil {
			return again, true, err
		}
		if ended {
			f.Outcomes[id] = o
		}
	}
	_, canary := c.Under()
	released := c.Reserved != "" && (!canary || c.Ends())
	full := c.State == reconfigure.CampaignRunning && len(c.Open) >= c.Batch && len(f.Outcomes) == 0
	if c.Active() && !full || released {
		if err := r.look(ctx, &c, &f, released); err != nil {
			return again, true, errors.Join(err, r.note(ctx, c, err))
		}
	}
	after, requests := Next(c, f)
	if len(requests) > 0 || !reflect.DeepEqual(c, after) || released {
		_, err = r.Journal.AdvanceCampaign(ctx, c.ID,
			func(now reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
				if released {
					now.Reserved = ""
				}
				is, requests := Next(now, f)
				return is, requests, nil
			})
		return time.Second, true, err
	}
	if _, canary := after.Under(); canary && after.Active() {
		return ask, true, nil
	}
	return again, after.Active() || len(after.Open) > 0, nil
}

// Advance returns Step in the form that a controller calls.
func (r Runner) Advance(log *slog.Logger) func(ctx context.Context) (next time.Duration, stay bool) {
	return func(ctx context.Context) (time.Duration, bool) {
		next, stay, err := r.Step(ctx)
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the campaign cannot continue now; retrying", "reason", err.Error())
		}
		return next, stay
	}
}

// note stores why a campaign does not continue, for people.
func (r Runner) note(ctx context.Context, c reconfigure.Campaign, problem error) error {
	if !c.Active() || c.Why == problem.Error() || ctx.Err() != nil {
		return nil
	}
	_, err := r.Journal.AdvanceCampaign(ctx, c.ID,
		func(now reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
			if now.Active() {
				now.Why = problem.Error()
			}
			return now, nil, nil
		})
	return err
}

// look takes a snapshot, and carries out the canary's calls to Slurm.
func (r Runner) look(ctx context.Context, c *reconfigure.Campaign, f *Facts, release bool) error {
	site, err := r.Open(ctx)
	if err != nil {
		return err
	}
	f.Cluster, f.Tests = site.Cluster, site.Cluster.Settings.CanaryJob != ""
	// The requests are read before the snapshot: a request that ends in between counts as pending, and its node
	// waits.
	if f.Pending, err = r.Journal.Pending(ctx); err != nil {
		return err
	}
	seen, err := site.Observe(ctx, snapshot.Scope{Declared: true})
	if err != nil {
		return err
	}
	f.Seen = &seen
	canary, under := c.Under()
	if !release && (!under || !f.Tests) || !seen.Asked(snapshot.Slurm) {
		if release {
			return fmt.Errorf("the reservation %s of campaign %s cannot be ended: %s", c.Reserved, c.ID,
				seen.Missing[snapshot.Slurm])
		}
		return nil
	}
	tester := site.Tester(seen.Instances[site.Cluster.Control.Name])
	if release {
		if err := tester.Release(ctx, c.Reserved); err != nil {
			return err
		}
		c.Reserved = ""
		return nil
	}
	return test(ctx, tester, site.Cluster, *c, canary, f)
}

// test advances the test of the canary.
func test(
	ctx context.Context, t Tester, cluster reconfigure.Cluster, c reconfigure.Campaign, canary reconfigure.Canary,
	f *Facts,
) (err error) {
	switch canary.Phase {
	case reconfigure.CanaryReserve:
		err = t.Reserve(ctx, c.Reserved, canary.Node)
		f.Test.Reserved = err == nil
	case reconfigure.CanaryTest:
		f.Test.Ended, f.Test.Failure, err = t.Test(ctx, c.Reserved, canary.Node, partition(cluster, canary.Group),
			cluster.Settings.CanaryTime)
		limit := cluster.Settings.CanaryTime + patience
		if err == nil && !f.Test.Ended && !canary.Since.IsZero() && f.Seen.Time.Sub(canary.Since) > limit {
			f.Test = Test{Ended: true, Failure: fmt.Sprintf("the test job has not ended within %s", limit)}
		}
		if err == nil && f.Test.Failure != "" {
			why := fmt.Sprintf("canary of campaign %s: %s", c.ID, f.Test.Failure)
			err = t.Drain(ctx, nodeset.Of(canary.Node), why)
		}
	}
	return err
}

// partition returns a partition that has a group's nodes.
func partition(cluster reconfigure.Cluster, group string) string {
	for _, p := range cluster.Partitions {
		for _, name := range p.Groups {
			if name == group {
				return p.Name
			}
		}
	}
	return ""
}
