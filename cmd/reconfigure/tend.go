package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// lookFile keeps the last look at what differs, in the state directory: for the next look, be it of another process, and for `reconfigure status`.
const lookFile = "reconcile.json"

// lastLook is what the last look found, and who did not answer.
type lastLook struct {
	reconcile.Look
	Silent []silence `json:"silent,omitempty"`
}

// lastLook is the zero one where nobody has looked yet.
func (s site) lastLook() (l lastLook, err error) {
	text, err := os.ReadFile(s.state(lookFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return lastLook{}, fmt.Errorf("the last look at what differs cannot be read: %w", err)
	}
	return l, nil
}

func (s site) keepLook(l lastLook) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(s.state(), 0o700), renameio.WriteFile(s.state(lookFile), append(text, '\n'), 0o600))
}

// tender looks for what differs as often as is declared, and mends what may be mended unasked.
type tender struct {
	dir   string
	log   *journal.Journal
	out   *slog.Logger
	self  program
	where whereabouts // of the journal that it looks after
	fixed bool        // it is a service, which whoever replaces the program restarts
	next  time.Time   // before that there is nothing to do
	stay  bool        // the worker is to stay for the next look
}

// staleAfter is how many of the intervals a look is worth comparing with: the worker may have been at work meanwhile, for as long as an instance takes to be made.
const staleAfter = 4

// tend looks when it is time for that, and tells whether the worker is to stay for the next time.
func (t *tender) tend(ctx context.Context) (stay bool) {
	const patience = time.Minute // where nobody can tell when the next look is due
	now := time.Now()
	if now.Before(t.next) {
		return t.stay
	}
	t.next = now.Add(patience)
	if !t.fixed && t.self.replaced() {
		t.stay = false // the next call starts the new one
		return false
	}
	s, err := openSite(t.dir) // afresh: it may have been edited
	if err != nil {
		return t.stay // whoever calls is told
	}
	if now := s.whereabouts(); now.StateDirectory != t.where.StateDirectory || now.Journal != t.where.Journal {
		t.out.WarnContext(ctx, "another journal is declared by now: this worker does not look for what differs any more, and is to be restarted where it is a service")
		t.stay = false // what is asked for in the other one it would not know
		return false
	}
	every := s.cluster.Settings.Reconcile
	if t.stay = every > 0; !t.stay {
		return false
	}
	last, err := s.lastLook()
	if err != nil {
		t.out.WarnContext(ctx, err.Error())
	}
	if due := last.Time.Add(every); now.Before(due) && !last.Time.After(now) {
		t.next = due
		return true
	}
	if _, paused, err := t.log.Paused(ctx); err != nil || paused {
		return true
	}
	t.next = now.Add(every)
	if err := t.look(ctx, s, last, staleAfter*every); err != nil && ctx.Err() == nil {
		t.out.WarnContext(ctx, "what differs could not be mended", "reason", err.Error())
	}
	return true
}

// look looks once, and mends what was there at the last look, too. The look is kept before anything is done about it: what is tried in vain must not be tried at every
// look, nor by every process that dies of it.
func (t *tender) look(ctx context.Context, s site, last lastLook, stale time.Duration) error {
	d, err := s.compare(ctx, t.log, t.out, nobodysAge)
	if err != nil {
		return err
	}
	differences := slices.DeleteFunc(d.findings, func(f reconcile.Finding) bool { return f.Kind.Note() })
	fixes, next := last.Next(s.cluster, d.seen, differences, stale)
	if err := s.keepLook(lastLook{Look: next, Silent: d.silent}); err != nil {
		return err
	}
	d.findings = fixes
	return t.mend(ctx, s, d)
}

// mend does what may be done unasked. The requests are left to this process, which watches.
func (t *tender) mend(ctx context.Context, s site, d compared) error {
	left, failure := d.mendAtOnce(ctx, s, t.log, func(f reconcile.Finding, err error) error {
		t.out.InfoContext(ctx, mendedWords(f, err == nil), "found", string(f.Kind), "by", "reconcile")
		return nil // the error comes with all others
	})
	now, err := workIn(ctx, t.log)
	if err != nil {
		return errors.Join(failure, err)
	}
	busy := left.Union(now.nodes).Union(now.since(d.work))
	open := slices.DeleteFunc(d.findings, func(f reconcile.Finding) bool { return now.whole || busy.Contains(f.Node) })
	_, err = submitFixes(ctx, t.log, requests(open), "reconcile in the worker")
	return errors.Join(failure, err)
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
	was, err := os.Stat("/proc/self/exe") // also where it has been replaced already
	return program{path, was}, err
}

// replaced tells that there is another one in its place by now: a worker that stays would go on as the old one for ever.
func (p program) replaced() bool {
	is, err := os.Stat(p.path)
	return err == nil && !(os.SameFile(p.was, is) && p.was.ModTime().Equal(is.ModTime()))
}

// lookReport is what `status` tells of the last look.
type lookReport struct {
	Time     time.Time       `json:"time"`
	Overdue  bool            `json:"overdue"` // nobody looks any more
	Findings []findingReport `json:"findings"`
	Silent   []silence       `json:"silent"`
}

// report is nil where nobody is to look, or nobody has.
func (l lastLook) report(every time.Duration, now time.Time) *lookReport {
	if every == 0 || l.Time.IsZero() {
		return nil
	}
	return &lookReport{
		Time: l.Time, Overdue: now.Sub(l.Time) > staleAfter*every,
		Findings: findingReports(l.Findings), Silent: append([]silence{}, l.Silent...),
	}
}

// words is the report for people.
func (r lookReport) words(now time.Time) string {
	text := "Looked for what differs " + ago(now, r.Time) + " ago"
	if r.Overdue {
		text += ", and not since (`reconfigure worker` does)"
	}
	companies := alike(r.Findings, func(f findingReport) (string, reconcile.Kind) { return f.Node, f.Kind })
	switch {
	case len(r.Silent) > 0:
		return text + ": somebody did not answer."
	case len(companies) == 0:
		return text + ": nothing did."
	}
	text += ": "
	for i, c := range companies {
		if i > 0 {
			text += ", "
		}
		text += kindWords(c.first.Kind) + " " + clip(c.nodes.String(), 30)
	}
	return text + "; `reconfigure reconcile` has more."
}
