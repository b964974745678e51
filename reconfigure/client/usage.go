package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

// KnowsGroup returns an error unless the name is that of a declared node group, the control node's group, or empty.
func KnowsGroup(s site.Site, name string) error {
	if name == "" || name == reconfigure.ControlGroup || !s.Declared() {
		return nil
	}
	_, err := reconfigure.GroupNamed(s.Cluster.Groups, name)
	return err
}

// UnknownNodes returns the nodes that are not declared and have no instance in the journal. Without a readable
// declaration it returns none.
func UnknownNodes(
	ctx context.Context, s site.Site, log *journal.Journal, nodes nodeset.NodeSet,
) (nodeset.NodeSet, error) {
	unknown := nodes.Difference(s.Cluster.Nodes()).Difference(nodeset.Of(s.Cluster.Control.Name))
	if unknown.Empty() || !s.Declared() {
		return nodeset.NodeSet{}, nil
	}
	if log == nil {
		return unknown, nil
	}
	lives, err := log.Lives(ctx, time.Unix(0, 0))
	for _, l := range lives {
		unknown = unknown.Difference(nodeset.Of(l.Node))
	}
	return unknown, err
}

// Jobs stores Slurm's jobs in the journal, then returns the jobs that a caller asks for. It logs if Slurm does not
// answer, or if there is no journal (log is nil).
func Jobs(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, pick usage.Filter,
) ([]usage.Job, error) {
	facts, err := usageFacts(ctx, s, log, out, pick)
	if err != nil || log == nil {
		return []usage.Job{}, err
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

// Report stores Slurm's jobs in the journal, then returns the hours of instances, of one node group unless its name
// is empty.
func Report(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, pick usage.Filter, group string,
) (usage.Report, error) {
	facts, err := usageFacts(ctx, s, log, out, pick)
	r := usage.NewReport(facts, pick.Since, group)
	r.Saved = usage.NewSaved(facts, pick.Since, group)
	return r, err
}

// Hosts compares the hosts of the instances that existed since a time, of one node group unless its name is empty. log
// may be nil.
func Hosts(ctx context.Context, log *journal.Journal, since time.Time, group string) ([]usage.Host, error) {
	if log == nil {
		return usage.Hosts(nil, group), nil
	}
	lives, err := log.Lives(ctx, since)
	return usage.Hosts(lives, group), err
}

// usageFacts returns the known jobs and instances, without the events and outcomes of requests.
func usageFacts(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, pick usage.Filter,
) (usage.Facts, error) {
	facts := usage.Facts{Now: time.Now(), Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{}}
	if log == nil {
		out.WarnContext(ctx, "no request was made here yet, so no jobs and instances are known")
		return facts, nil
	}
	if s.Declared() { // else the caller has already got the error
		if err := askForJobs(ctx, s, log, out); err != nil {
			out.WarnContext(ctx, "Slurm does not list its jobs: only jobs in the journal are shown",
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

// askForJobs stores Slurm's jobs, within the time for which a person waits.
func askForJobs(ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, site.AnswerWithin)
	defer cancel()
	adapters := s.Readers(log, out)
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
	return worker.KeepJobs(ctx, log, adapters.Scheduler(control), out)
}
