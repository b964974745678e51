package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/spare"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// comparisonFile is the file of the worker's last comparison of the sources, in the state directory: for the next
// comparison, also of another process, and for `reconfigure status`.
const comparisonFile = "reconcile.json"

// LastLook returns the last comparison; the zero value if no worker has compared yet.
func LastLook(s site.Site) (l reconcile.Look, err error) {
	text, err := os.ReadFile(s.StateFile(comparisonFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return reconcile.Look{}, fmt.Errorf("the worker's last comparison cannot be read: %w", err)
	}
	return l, nil
}

func keepLook(s site.Site, l reconcile.Look) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(s.StateFile(), 0o700),
		renameio.WriteFile(s.StateFile(comparisonFile), append(text, '\n'), 0o600))
}

// comparer compares the sources at the declared interval, and carries out the unattended fixes.
type comparer struct {
	dir  string
	log  *journal.Journal
	out  *slog.Logger
	self program
	at   site.Location // the location of its journal
}

// reconciler returns the function that a worker calls to compare the sources.
func reconciler(
	s site.Site, log *journal.Journal, out *slog.Logger, self program,
) func(context.Context) (next time.Duration, ok bool) {
	return comparer{dir: s.Dir, log: log, out: out, self: self, at: s.Location()}.reconcile
}

// reconcile compares if that is due, and keeps the spare nodes of groups that declare some. It returns when to call it
// next; false if nothing more is to be compared.
func (r comparer) reconcile(ctx context.Context) (next time.Duration, ok bool) {
	if r.self.replaced() {
		return 0, false // the next call, or a supervisor, starts the new program
	}
	s, err := site.Open(r.dir) // opened again, since it may have been edited
	if err != nil {
		// callers get the error; an idle worker soon ends when it is fixed
		return 10 * time.Second, true
	}
	if !s.Location().SameJournal(r.at) {
		r.out.WarnContext(
			ctx,
			"another journal is declared now: this worker no longer compares the sources, "+
				"and must be restarted if it is a service",
		)
		return 0, false
	}
	every := s.Cluster.Settings.Reconcile
	if every == 0 {
		return 0, false
	}
	if nodes, known, err := r.log.Nodes(ctx); err == nil && known && len(nodes) == 0 {
		return 0, false // the cluster was destroyed
	}
	last, err := LastLook(s)
	if err != nil {
		r.out.WarnContext(ctx, err.Error())
	}
	now, wait := time.Now(), every
	due := last.Time.Add(every)
	compares := !now.Before(due) || last.Time.After(now)
	if !compares {
		wait = due.Sub(now)
	}
	keeps := spare.Declared(s.Cluster)
	if !compares && !keeps {
		return wait, true
	}
	if _, paused, err := r.log.Paused(ctx); err != nil || paused {
		return min(wait, time.Minute), true
	}
	if compares {
		if err := r.compare(ctx, s, last); err != nil && ctx.Err() == nil {
			r.out.WarnContext(ctx, "what differs could not be fixed", "reason", err.Error())
		}
	}
	if !keeps {
		return wait, true
	}
	if err := r.keepSpare(ctx, s); err != nil && ctx.Err() == nil {
		r.out.WarnContext(ctx, "the spare nodes could not be kept", "reason", err.Error())
	}
	return min(wait, spareEvery), true
}

func (r comparer) compare(ctx context.Context, s site.Site, last reconcile.Look) error {
	adapters := s.Adapters(r.log, r.out)
	defer adapters.Close()
	stale := reconcile.StaleAfter * s.Cluster.Settings.Reconcile
	told := func(f reconcile.Finding, err error) error {
		fixed := status.Fixed{Finding: f, Done: err == nil}
		r.out.InfoContext(ctx, fixed.String(), "found", string(f.Kind), "by", "reconcile")
		return nil // the error is reported with the others
	}
	reconciler := adapters.Reconciler(reconcile.DefaultMinAge)
	reconciler.Observe = r.keepingLives(reconciler.Observe)
	return reconciler.Unattended(ctx, last, stale, func(l reconcile.Look) error { return keepLook(s, l) }, told)
}

// program is the file that this process was started from.
type program struct {
	path string
	was  os.FileInfo
}

func thisProgram() (program, error) {
	path, err := os.Executable()
	if err != nil {
		return program{}, err
	}
	was, err := os.Stat("/proc/self/exe") // this also works if the file was already replaced
	return program{path, was}, err
}

// replaced reports whether the file was replaced. A long-running worker would otherwise always run the old program.
func (p program) replaced() bool {
	is, err := os.Stat(p.path)
	return err == nil && !(os.SameFile(p.was, is) && p.was.ModTime().Equal(is.ModTime()))
}
