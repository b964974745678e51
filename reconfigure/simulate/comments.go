package simulate

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// Submits adds waiting jobs to Slurm.
func (w *World) Submits(jobs ...int64) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, job := range jobs {
		w.slurm.comments[job] = ""
	}
}

// Remarks sets another user's comment on a job.
func (w *World) Remarks(job int64, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.slurm.comments[job] = text
}

// Comments returns the comments of the jobs.
func (w *World) Comments() map[int64]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return maps.Clone(w.slurm.comments)
}

// Comment comments on jobs.
func (w *World) Comment(ctx context.Context, jobs []int64, text string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	if err := w.answers(ctx); err != nil {
		return err
	}
	if w.ordered(NoComments) {
		return failure{NoComments}
	}
	for _, job := range jobs {
		if was, waits := w.slurm.comments[job]; waits && (was == "" || strings.HasPrefix(was, ReasonPrefix)) {
			w.slurm.comments[job] = ReasonPrefix + text
		}
	}
	w.seen.calls = append(w.seen.calls, fmt.Sprintf("comment %d: %s", jobs, text))
	return nil
}
