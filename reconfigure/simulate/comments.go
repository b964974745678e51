package simulate

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// Submits has jobs wait in Slurm.
func (w *World) Submits(jobs ...int64) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, job := range jobs {
		w.comments[job] = ""
	}
}

// Remarks has somebody else comment on a job.
func (w *World) Remarks(job int64, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.comments[job] = text
}

// Comments is what the jobs carry.
func (w *World) Comments() map[int64]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return maps.Clone(w.comments)
}

// Comment tells the owners of jobs.
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
		if was, waits := w.comments[job]; waits && (was == "" || strings.HasPrefix(was, ReasonPrefix)) {
			w.comments[job] = ReasonPrefix + text
		}
	}
	w.calls = append(w.calls, fmt.Sprintf("comment %d: %s", jobs, text))
	return nil
}
