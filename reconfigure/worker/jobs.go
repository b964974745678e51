package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// jobsEvery is the interval at which a worker reads Slurm's jobs. Jobs that end in between are in slurmctld's list.
const jobsEvery = 5 * time.Minute

// KeepJobs stores the jobs that ended since the last call, and those that Slurm knows, in the journal.
func KeepJobs(ctx context.Context, log *journal.Journal, client *slurm.Client, out *slog.Logger) error {
	position, err := log.JobPosition(ctx)
	if err != nil {
		return err
	}
	open, err := log.JobRuns(ctx, journal.OpenOnly)
	if err != nil {
		return err
	}
	var has []reconfigure.JobRun
	for more := true; more; {
		jobs, err := client.Jobs(ctx, position)
		if err != nil {
			return err
		}
		if len(jobs.Skipped) > 0 {
			out.WarnContext(ctx, "jobs that Slurm lists cannot be read", "first", jobs.Skipped)
		}
		if !jobs.Listed {
			out.WarnContext(ctx, "slurmctld writes no list of ended jobs, so jobs may be missing: slurm.conf has "+
				"another JobCompType than jobcomp/filetxt")
		}
		if err := log.KeepJobRuns(ctx, jobs.Position, jobs.Runs...); err != nil {
			return err
		}
		has = append(has, jobs.Runs...)
		position, more = jobs.Position, jobs.More
	}
	return log.KeepJobRuns(ctx, position, usage.Vanished(open, has, time.Now().UTC().Truncate(time.Second))...)
}

// keepingLives makes each comparison of the sources record which instances appeared and disappeared without an
// operation.
func (r comparer) keepingLives(
	observe func(context.Context) (snapshot.Snapshot, error),
) func(context.Context) (snapshot.Snapshot, error) {
	return func(ctx context.Context) (snapshot.Snapshot, error) {
		seen, err := observe(ctx)
		if err != nil || !seen.Asked(snapshot.Cloud) {
			return seen, err
		}
		known, err := r.log.Lives(ctx, journal.OpenOnly)
		if err != nil {
			return seen, err
		}
		var events []reconfigure.Event
		for _, l := range usage.Observed(known, seen.Servers, seen.Time) {
			events = append(events, reconfigure.Event{Node: l.Node, Life: &l})
		}
		return seen, r.log.Record(ctx, events...)
	}
}

// keepingJobs stores Slurm's jobs after each snapshot of a worker, concurrently with the worker.
func (o *opener) keepingJobs(
	observe func(context.Context, snapshot.Scope) (snapshot.Snapshot, error), cluster reconfigure.Cluster,
) func(context.Context, snapshot.Scope) (snapshot.Snapshot, error) {
	return func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error) {
		seen, err := observe(ctx, scope)
		if err == nil && seen.Asked(snapshot.Slurm) {
			o.keepJobs(ctx, seen.Instances[cluster.Control.Name])
		}
		return seen, err
	}
}

// keepJobs stores Slurm's jobs, unless it was called a short time ago.
func (o *opener) keepJobs(ctx context.Context, control reconfigure.Instance) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if time.Since(o.jobsKept) < jobsEvery || o.last == nil {
		return
	}
	o.jobsKept = time.Now()
	client := o.last.Scheduler(control)
	o.wait.Go(func() {
		if err := KeepJobs(ctx, o.log, client, o.logger); err != nil && ctx.Err() == nil {
			o.logger.WarnContext(ctx, "Slurm's jobs could not be kept", "reason", err.Error())
		}
	})
}
