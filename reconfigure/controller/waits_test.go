package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// wantLooks demands how often everything, and how often Slurm alone, was asked since the last time.
func (l *lab) wantLooks(atMost, slurmAtLeast int32) {
	l.Helper()
	if looks, asked := l.looks.Swap(0), l.asked.Swap(0); looks > atMost || asked < slurmAtLeast {
		l.Errorf("%d looks at everything and %d at Slurm alone, want at most %d and at least %d", looks, asked, atMost,
			slurmAtLeast)
	}
}

func TestWhileJobsRunSlurmAloneIsAsked(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		l.StartJob("p1")
		l.StartJob("p2")
		l.submit(ask(reconfigure.Update, "p1"), ask(reconfigure.Update, "p2"))
		l.spawn()
		pass(time.Minute)
		l.wantLooks(4, 3)
		pass(10 * time.Minute)
		l.wantLooks(11, 45)
		l.StartJob("p3") // none of their nodes
		pass(10 * time.Minute)
		l.wantLooks(11, 45)
		l.EndJob("p1")
		pass(20 * time.Second)
		l.wantEnds(codes{1: done})
		l.EndJob("p2")
		pass(20 * time.Second)
		l.wantEnds(codes{1: done, 2: done})
	})
}

// What only a whole look shows is seen within a minute.
func TestSlurmsSilenceShowsWhileJobsRun(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.StartJob("p1")
		l.submit(ask(reconfigure.Update, "p1"))
		l.spawn()
		kind := func(want reconfigure.DeferralKind) {
			t.Helper()
			if d := l.pending()[0].Deferred; len(d) != 1 || d[0].Kind != want {
				t.Errorf("deferred: %+v, want %s", d, want)
			}
		}
		pass(time.Minute)
		kind(reconfigure.WaitsForJobs)
		l.Order(simulate.SlurmSilent)
		pass(11 * time.Second)
		kind(reconfigure.SlurmUnreachable)
		l.Clear(simulate.SlurmSilent)
		pass(11 * time.Second)
		kind(reconfigure.WaitsForJobs)
		l.fails(noState, 10*time.Minute, "the state cannot be read")
		pass(61 * time.Second)
		if d := l.pending()[0].Deferred; len(d) != 2 || d[1].Kind != reconfigure.CannotPlan {
			t.Errorf("deferred: %+v", d)
		}
	})
}

// deferring counts the writes of requests without an outcome.
type deferring struct {
	controller.Journal
	writes *int
}

func (d deferring) Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	*d.writes++
	return d.Journal.Defer(ctx, outcomes...)
}

// All verdicts of a request are written each time.
func TestVerdictsThatComeTogetherAreWrittenTogether(t *testing.T) {
	test(t, nil, func(l *lab) {
		writes := 0
		l.config = func(c *controller.Config, _ *memory.Journal) { c.Journal = deferring{c.Journal, &writes} }
		names := []string{"p2", "p3", "p4", "p5"}
		l.PowersUp(names...)
		for i, name := range names { // all but the last within a second
			l.Takes(simulate.Playing, time.Minute+time.Duration(i)*300*time.Millisecond+time.Duration(i/3)*time.Hour, name)
		}
		l.submit(ask(reconfigure.Resume, names...))
		l.spawn()
		pass(2 * time.Minute)
		if known := len(l.pending()[0].Verdicts); known != 3 || writes > 2 {
			t.Errorf("%d verdicts are known, after %d writes", known, writes)
		}
	})
}
