package site

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// jobsEvery is how often a worker reads Slurm's jobs. Those that end meanwhile are in slurmctld's list.
const jobsEvery = 5 * time.Minute

// keepJobs keeps the jobs that have ended since the last time, and those that Slurm knows, in the journal.
func keepJobs(ctx context.Context, log *journal.Journal, client *slurm.Client, out *slog.Logger) error {
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

// KnowsGroup returns an error unless a node group of that name is declared, or is that of the control node. The empty
// name is none.
func (s Site) KnowsGroup(name string) error {
	if name == "" || name == reconfigure.ControlGroup || !s.Declared() {
		return nil
	}
	_, err := reconfigure.GroupNamed(s.Cluster.Groups, name)
	return err
}

// Jobs returns the jobs that a caller asks for, after it has kept what Slurm says of jobs. Where Slurm does not answer,
// that is logged.
func (s Site) Jobs(
	ctx context.Context, log *journal.Journal, out *slog.Logger, pick usage.Filter,
) ([]usage.Job, error) {
	facts, err := s.usage(ctx, log, out, pick)
	if err != nil {
		return nil, err
	}
	candidates := pick.Candidates(facts)
	ids := candidates.Requests() // there may be many others
	for _, id := range ids {
		o, ended, err := log.Outcome(ctx, id)
		if err != nil {
			return nil, err
		}
		if ended {
			facts.Outcomes[id] = o
		}
	}
	if facts.Events, err = log.EventsOf(ctx, ids...); err != nil {
		return nil, err
	}
	return pick.Select(candidates.Jobs(facts)), nil
}

// Report returns the hours of instances, of one node group unless its name is empty, after it has kept what Slurm says
// of jobs.
func (s Site) Report(
	ctx context.Context, log *journal.Journal, out *slog.Logger, pick usage.Filter, group string,
) (usage.Report, error) {
	facts, err := s.usage(ctx, log, out, pick)
	return usage.NewReport(facts, pick.Since, group), err
}

// usage returns what is known of jobs and instances, without the events and outcomes of requests.
func (s Site) usage(
	ctx context.Context, log *journal.Journal, out *slog.Logger, pick usage.Filter,
) (usage.Facts, error) {
	facts := usage.Facts{Now: time.Now(), Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{}}
	if s.Declared() { // else who calls was told already
		if err := s.askForJobs(ctx, log, out); err != nil {
			out.WarnContext(ctx, "Slurm does not say which jobs there are: only what is known already is shown",
				"reason", err.Error())
		}
	}
	var err error
	if facts.Runs, err = log.JobRuns(ctx, pick.Since, pick.IDs...); err != nil {
		return facts, err
	}
	if facts.Lives, err = log.Lives(ctx, pick.Since); err != nil {
		return facts, err
	}
	named := slices.Clone(pick.IDs)
	if len(named) == 0 {
		pending, err := log.Pending(ctx)
		if err != nil {
			return facts, err
		}
		for _, r := range pending {
			for _, job := range r.Jobs {
				named = append(named, job.ID)
			}
		}
	}
	for _, run := range facts.Runs {
		named = append(named, run.ID)
	}
	slices.Sort(named)
	facts.Requests, err = log.RequestsFor(ctx, slices.Compact(named)...)
	return facts, err
}

// askForJobs keeps what the Slurm of the control node says of jobs, in the time for which a person waits.
func (s Site) askForJobs(ctx context.Context, log *journal.Journal, out *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	adapters := s.Adapters(log, out)
	defer adapters.Close()
	name := s.Cluster.Control.Name
	state, err := adapters.State(ctx, nodeset.Of(name))
	if err != nil {
		return err
	}
	control := state.Instances[name]
	if control.Address == "" {
		return errors.New("there is no control node yet: `reconfigure deploy` makes it")
	}
	if err := s.KnownHosts(log).Refresh(ctx); err != nil {
		return err
	}
	return keepJobs(ctx, log, adapters.Scheduler(control), out)
}

// keepingLives has each comparison of the sources record which instances have come and gone without an operation.
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

// keepingJobs keeps Slurm's jobs when a worker has taken a snapshot, beside what it does with that.
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

// keepJobs keeps Slurm's jobs, unless that was begun a short time ago.
func (o *opener) keepJobs(ctx context.Context, control reconfigure.Instance) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if time.Since(o.jobsKept) < jobsEvery || o.last == nil {
		return
	}
	o.jobsKept = time.Now()
	client := o.last.Scheduler(control)
	o.wait.Go(func() {
		if err := keepJobs(ctx, o.log, client, o.logger); err != nil && ctx.Err() == nil {
			o.logger.WarnContext(ctx, "Slurm's jobs could not be kept", "reason", err.Error())
		}
	})
}
