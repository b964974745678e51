package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Explain returns the story of a subject since a time. It stores Slurm's jobs in the journal if the subject is a job.
// It asks the cloud, Terraform and Slurm, except about a request that has ended. The story names the sources that do
// not answer, and is then told from the journal. A nil log has no data.
func Explain(
	ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger, subject explain.Subject, since time.Time,
) (explain.Story, error) {
	facts := explain.Facts{Cluster: s.Cluster}
	var noJobs error
	ended := false
	if subject.Request != 0 && log != nil {
		var err error
		if _, ended, err = log.Outcome(ctx, subject.Request); err != nil {
			return explain.Story{}, err
		}
	}
	switch {
	case ended: // the journal has all of it
	case !s.Declared():
		facts.Seen = unasked("all.yml cannot be read, so it was not asked")
	default:
		var wait sync.WaitGroup
		if subject.Job != 0 && log != nil {
			wait.Go(func() { noJobs = askForJobs(ctx, s, log, out) })
		}
		adapters := s.Readers(log, out)
		defer adapters.Close()
		seen, err := adapters.Look(ctx)
		wait.Wait()
		if err != nil {
			return explain.Story{}, err
		}
		facts.Seen = seen
	}
	if noJobs != nil && facts.Seen.Answers(snapshot.Slurm) {
		facts.Seen.Missing[snapshot.Slurm] = noJobs.Error()
	}
	if log != nil {
		var err error
		if facts.Journal, err = explain.Read(ctx, log, subject, since); err != nil {
			return explain.Story{}, err
		}
	}
	facts.Now = time.Now()
	return explain.New(facts, subject), nil
}

// unasked returns a snapshot in which no source was asked.
func unasked(why string) snapshot.Snapshot {
	missing := map[snapshot.System]string{}
	for _, source := range []snapshot.System{snapshot.Cloud, snapshot.Terraform, snapshot.Slurm} {
		missing[source] = why
	}
	return snapshot.Snapshot{Missing: missing}
}

// History calls shown with what happened. If follow is set, it goes on with what happens next, until ctx ends, and
// returns nil then.
func History(
	ctx context.Context, log *journal.Journal, filter explain.Filter, follow bool, shown func([]explain.Line) error,
) error {
	const look = time.Second
	history := explain.NewHistory(log, filter)
	for {
		lines, err := history.Next(ctx, time.Now())
		if err == nil {
			err = shown(lines)
		}
		switch {
		case follow && ctx.Err() != nil:
			return nil
		case err != nil || !follow:
			return err
		}
		_ = sleep.For(ctx, look) // the next look says that ctx has ended
	}
}

// KnowsClass returns the class with a name; false if there is none.
func KnowsClass(name string) (reconfigure.Class, bool) {
	for _, class := range reconfigure.Classes() {
		if string(class) == name {
			return class, true
		}
	}
	return "", false
}
