package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// jobRun is a run of a job, and when it was kept.
type jobRun struct {
	reconfigure.JobRun
	kept time.Time
}

// Lives has the lives of instances, in the order in which they were first recorded.
type Lives []reconfigure.Life

// Record stores the life in an event.
func (all *Lives) Record(l reconfigure.Life) {
	if l.Continues {
		last := reconfigure.Life{}
		for _, o := range *all {
			if o.Instance == l.Instance && !o.Ended() && o.Plan >= last.Plan {
				last = o
			}
		}
		l = l.After(last)
		l.Continues = false
	}
	same := func(o reconfigure.Life) bool { return o.Instance == l.Instance && o.Plan == l.Plan }
	end := l.Made
	if l.Instance == "" {
		l.Removed = stamped(l.Removed)
		end = l.Removed
	}
	for i, o := range *all {
		if o.Node == l.Node && !o.Ended() && !o.Made.After(end) && (l.Instance == "" || !same(o)) {
			(*all)[i].Removed = end
		}
	}
	if l.Instance == "" {
		return
	}
	if i := slices.IndexFunc(*all, same); i >= 0 {
		if (*all)[i].Ended() {
			l.Removed = (*all)[i].Removed
		}
		(*all)[i] = l
		return
	}
	*all = append(*all, l)
}

// whole returns why a life cannot be stored.
func whole(l *reconfigure.Life) error {
	if l != nil && l.Instance != "" && (l.Node == "" || l.Made.IsZero()) {
		return errors.New("a life without a node or the time when it was made")
	}
	return nil
}

// Lives returns the lives that had not ended by that time.
func (j *Journal) Lives(ctx context.Context, since time.Time) (lives []reconfigure.Life, err error) {
	err = j.access(ctx, func() error {
		for _, l := range j.lives {
			if !l.Ended() || !l.Removed.Before(since) {
				lives = append(lives, l)
			}
		}
		slices.SortFunc(lives, func(a, b reconfigure.Life) int {
			return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Plan, b.Plan))
		})
		return nil
	})
	return lives, err
}

// KeepJobRuns stores runs of jobs, and the position up to which they were read.
func (j *Journal) KeepJobRuns(ctx context.Context, position int64, runs ...reconfigure.JobRun) error {
	return j.access(ctx, func() error {
		if slices.ContainsFunc(runs, func(r reconfigure.JobRun) bool { return r.ID <= 0 }) {
			return errors.New("a job without a number")
		}
		j.jobPosition = position
		for _, run := range runs {
			i := slices.IndexFunc(j.jobRuns, func(o jobRun) bool {
				return o.ID == run.ID && o.Submitted.Equal(run.Submitted)
			})
			switch kept := (jobRun{run, time.Now()}); {
			case i < 0:
				j.jobRuns = append(j.jobRuns, kept)
			case j.jobRuns[i].Ended.IsZero() || !run.Ended.IsZero():
				j.jobRuns[i] = kept
			}
		}
		return nil
	})
}

// JobPosition returns the position up to which the ended jobs were read.
func (j *Journal) JobPosition(ctx context.Context) (position int64, err error) {
	err = j.access(ctx, func() error { position = j.jobPosition; return nil })
	return position, err
}

// JobRuns returns the runs of these jobs, or of all, that had not ended by that time.
func (j *Journal) JobRuns(ctx context.Context, since time.Time, jobs ...int64) (runs []reconfigure.JobRun, err error) {
	err = j.access(ctx, func() error {
		for _, r := range j.jobRuns {
			if (r.Ended.IsZero() || !r.Ended.Before(since)) && (len(jobs) == 0 || slices.Contains(jobs, r.ID)) {
				runs = append(runs, r.JobRun)
			}
		}
		slices.SortFunc(runs, func(a, b reconfigure.JobRun) int {
			return cmp.Or(cmp.Compare(a.ID, b.ID), a.Submitted.Compare(b.Submitted))
		})
		return nil
	})
	return runs, err
}

// RequestsFor returns the requests that name one of these jobs.
func (j *Journal) RequestsFor(ctx context.Context, jobs ...int64) (found []reconfigure.Request, err error) {
	err = j.access(ctx, func() error {
		for _, e := range j.requests {
			if slices.ContainsFunc(e.Jobs, func(job reconfigure.Job) bool { return slices.Contains(jobs, job.ID) }) {
				found = append(found, j.view(e))
			}
		}
		return nil
	})
	return found, err
}

// pruneUsage deletes the lives and the runs of jobs that ended before that time.
func (r *record) pruneUsage(before time.Time) {
	r.lives = slices.DeleteFunc(r.lives, func(l reconfigure.Life) bool { return l.Ended() && l.Removed.Before(before) })
	r.jobRuns = slices.DeleteFunc(r.jobRuns, func(run jobRun) bool {
		last := run.Ended
		if last.IsZero() {
			last = run.kept
		}
		return last.Before(before)
	})
}
