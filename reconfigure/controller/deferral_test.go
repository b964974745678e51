package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// given sets up the lab of an outage: Slurm powers down p2 and p3, and powers up p5.
func given(l *lab) {
	l.PowersDown("p2", "p3")
	l.PowersUp("p5")
}

func TestRequestsSurviveAnOutage(t *testing.T) {
	for name, b := range map[string]blindness{
		"a slip in the declaration": typo, "the cloud": noLogin, "Terraform's state": noState,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, []string{"p2", "p3", "p4"}, func(l *lab) {
				given(l)
				l.fails(b, 10*time.Minute, "the cloud does not answer")
				l.submit(ask(reconfigure.Suspend, "p2"), ask(reconfigure.Resume, "p5"), ask(reconfigure.Update, "p4"))
				l.spawn()
				pass(9 * time.Minute)
				l.wantEnds(codes{})
				for _, r := range l.pending() {
					want := []reconfigure.Deferral{{Request: r.ID, Kind: reconfigure.CannotPlan, Reason: "the cloud does not answer"}}
					if diff := cmp.Diff(want, r.Deferred); diff != "" || r.Touched {
						t.Errorf("request %s, touched %t (-want +got):\n%s", r.ID, r.Touched, diff)
					}
				}
				if n := l.looksThatFailed(); n < 5 || n > 40 || len(l.plans()) > 0 {
					t.Errorf("it was tried %d times in 9 minutes, with %d plans", n, len(l.plans()))
				}
				pass(5 * time.Minute)
				l.wantEnds(codes{1: done, 2: done, 3: done})
			})
		})
	}
}

func TestEachModeIsRetriedForItsOwnTime(t *testing.T) {
	test(t, []string{"p2", "p3", "p4"}, func(l *lab) {
		given(l)
		l.fails(noLogin, 30*time.Hour, "the cloud does not answer")
		l.submit(ask(reconfigure.Suspend, "p2"), ask(reconfigure.Resume, "p5"), ask(reconfigure.Update, "p4"),
			ask(reconfigure.Shrink, "p3"), ask(reconfigure.Deploy))
		l.spawn()
		pass(10 * time.Second)
		l.wantEnds(codes{4: failed, 5: failed})
		pass(14 * time.Minute)
		l.wantEnds(codes{4: failed, 5: failed})
		l.fails(noLogin, 29*time.Hour, "the cloud is on fire")
		pass(5 * time.Minute)
		l.wantEnds(codes{2: failed, 4: failed, 5: failed})
		if o, _ := l.outcome(2); o.Error != "could not be planned for 15m0s; the last error: the cloud is on fire" {
			t.Errorf("error %q", o.Error)
		}
		pass(2 * time.Hour)
		l.wantEnds(codes{2: failed, 3: failed, 4: failed, 5: failed})
		l.submit(ask(reconfigure.Suspend, "p3"), ask(reconfigure.Deploy)) // its caller sees the error at once
		pass(10 * time.Second)
		if o, ended := l.outcome(7); !ended || o.Code != failed {
			t.Errorf("the deploy ended as %+v", o)
		}
		pass(29 * time.Hour)
		l.wantEnds(codes{1: done, 2: failed, 3: failed, 4: failed, 5: failed, 6: done, 7: failed})
	})
}

func TestWithoutADeclarationAResumeHasAnHour(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p5")
		l.fails(typo, 3*time.Hour, "line 5")
		l.submit(ask(reconfigure.Resume, "p5"))
		l.work()
		l.wantEnds(codes{1: failed})
		l.wantTook(1, time.Hour, time.Hour+4*time.Minute)
	})
}

// Slurm asks once, and may not answer then.
func TestASuspendWaitsUntilSlurmAnswersAgain(t *testing.T) {
	test(t, []string{"p2", "p3"}, func(l *lab) {
		l.PowersDown("p2", "p3")
		l.Order(simulate.SlurmSilent)
		l.submit(ask(reconfigure.Suspend, "p2", "p3", "p9"))
		l.spawn()
		pass(30 * time.Hour)
		l.wantEnds(codes{})
		for _, d := range l.pending()[0].Deferred {
			if d.Kind != reconfigure.SlurmUnreachable {
				t.Errorf("deferred: %+v", d)
			}
		}
		if n := len(l.plans()); n > 1 {
			t.Errorf("%d plans, although nothing could be done", n)
		}
		l.Clear(simulate.SlurmSilent)
		pass(time.Minute)
		l.wantSaid(1, done, statuses{
			"p2": reconfigure.StatusDone, "p3": reconfigure.StatusDone, "p9": reconfigure.StatusUnchanged,
		})
		l.wantCalls("apply delete p[2-3]")
	})
}

// undrains is a Slurm that somebody else tells at once to use the nodes again that were drained.
type undrains struct{ *simulate.World }

func (u undrains) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	if err := u.World.Drain(ctx, nodes, reason); err != nil {
		return err
	}
	return u.World.Undrain(ctx, nodes)
}

func TestANodeThatDoesNotStayDrainedIsNotDrainedAllTheTime(t *testing.T) {
	test(t, []string{"p4"}, func(l *lab) {
		l.StartJob("p4")
		l.slurm = undrains{l.World}
		l.submit(ask(reconfigure.Update, "p4"))
		stop, _ := l.spawn()
		pass(time.Minute)
		if n := len(l.plans()); n < 2 || n > 8 {
			t.Errorf("%d plans in a minute", n)
		}
		stop()
	})
}

// Only a plan can undrain nodes, so no outage ends a request that has drained some.
func TestWhatWasDrainedIsUndrainedAfterAnOutage(t *testing.T) {
	test(t, []string{"p4"}, func(l *lab) {
		l.StartJob("p4")
		l.submit(ask(reconfigure.Update, "p4"))
		l.spawn()
		pass(time.Hour)
		l.fails(noLogin, 9*time.Hour, "the cloud does not answer")
		pass(8 * time.Hour)
		l.wantEnds(codes{})
		want := []reconfigure.DeferralKind{reconfigure.WaitsForJobs, reconfigure.CannotPlan}
		var kinds []reconfigure.DeferralKind
		for _, d := range l.pending()[0].Deferred {
			kinds = append(kinds, d.Kind)
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("deferred (-want +got):\n%s", diff)
		}
		pass(2 * time.Hour)
		l.wantEnds(codes{1: failed})
		l.wantCalls("drain p4: update", "undrain p4")
	})
}

func TestACancelledRequestDelaysNoOther(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.fails(noLogin, 5*time.Minute, "the cloud does not answer")
		l.submit(ask(reconfigure.Update, "p2"), ask(reconfigure.Resume, "p2"))
		_, ended := l.spawn()
		pass(time.Minute)
		if err := l.journal.Cancel(l.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.wantEnds(codes{1: cancelled, 2: done})
	})
}

// Others are served while a request waits for jobs.
func TestOthersAreServedWhileARequestWaits(t *testing.T) {
	test(t, []string{"p3"}, func(l *lab) {
		l.StartJob("p1")
		l.submit(ask(reconfigure.Update, "p1"))
		l.spawn()
		pass(time.Minute)
		l.PowersUp("p2")
		l.calls(reconfigure.Resume, "p2")
		l.PowersDown("p3")
		l.calls(reconfigure.Suspend, "p3")
		l.calls(reconfigure.Deploy)
		pass(time.Minute)
		l.wantEnds(codes{2: done, 3: done, 4: done})
		l.EndJob("p1")
		pass(time.Minute)
		l.wantEnds(codes{1: done, 2: done, 3: done, 4: done})
	})
}

// move is one step of a random sequence of calls, outages, pauses and ends of workers.
type move struct {
	mode    reconfigure.Mode // empty: no call
	node    string
	outage  time.Duration // begins before the call; 0: none
	stops   bool          // the workers end before the call
	pause   int           // 1: begins, 2: ends
	seconds int           // until the next one
}

func drawMoves(t *rapid.T) []move {
	modes := []reconfigure.Mode{reconfigure.Suspend, reconfigure.Resume, reconfigure.Update, reconfigure.Deploy, ""}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
		return move{
			mode:   rapid.SampledFrom(modes).Draw(t, "mode"),
			node:   rapid.SampledFrom([]string{"p2", "p3", "p4", "p5"}).Draw(t, "node"),
			outage: time.Duration(max(0, rapid.IntRange(-240, 240).Draw(t, "minutes"))) * time.Minute,
			stops:  rapid.IntRange(0, 3).Draw(t, "stops") == 3, pause: max(0, rapid.IntRange(-3, 2).Draw(t, "pause")),
			seconds: rapid.IntRange(0, 60).Draw(t, "seconds") * rapid.IntRange(0, 90).Draw(t, "times"),
		}
	}), 1, 10).Draw(t, "moves")
}

// Outages, pauses and ends of workers only delay requests, if a worker is started whenever a pause ends.
func TestNoRequestIsLostByOutagesAndPauses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := blindness(rapid.IntRange(1, 3).Draw(rt, "kind"))
		moves := drawMoves(rt)
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			l := &lab{
				T: t, World: simulate.NewWorld(declared()), journal: memory.New(), cluster: declared(), start: time.Now(),
			}
			l.Have("ctl", "p1", "p2", "p3", "p4")
			wrong = l.plays(kind, moves)
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// plays plays moves, and returns what is wrong when no worker is left.
func (l *lab) plays(kind blindness, moves []move) (wrong []string) {
	var lock sync.Mutex
	complain := func(format string, args ...any) {
		lock.Lock()
		defer lock.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	ctx, stop := context.WithCancel(l.Context())
	start := func() {
		ctx := ctx
		l.workers.Go(func() {
			if err := l.run(ctx); err != nil && ctx.Err() == nil {
				complain("a worker ended with %v", err)
			}
		})
	}
	modes := map[reconfigure.RequestID]reconfigure.Mode{}
	for i, m := range moves {
		if m.outage > 0 {
			l.fails(kind, m.outage, fmt.Sprint("outage ", i))
		}
		if m.stops {
			stop()
			l.workers.Wait()
			ctx, stop = context.WithCancel(l.Context())
		}
		switch {
		case m.pause == 1:
			_ = l.journal.Pause(l.Context(), "a disk is swapped", "alice")
		case m.pause == 2:
			_ = l.journal.Continue(l.Context())
			start()
		}
		if m.mode != "" {
			r := ask(m.mode, m.node)
			if m.mode == reconfigure.Deploy {
				r = ask(m.mode)
			}
			modes[l.submit(r)] = m.mode
		}
		start()
		pass(time.Duration(m.seconds) * time.Second)
	}
	_ = l.journal.Continue(l.Context())
	start()
	l.workers.Wait()
	stop()
	for id, m := range modes {
		o, ended := l.outcome(id)
		switch {
		case !ended:
			complain("request %s has no outcome", id)
		case m == reconfigure.Suspend && o.Error != "":
			complain("suspend %s was given up: %s", id, o.Error)
		}
	}
	if l.leased() {
		complain("the lease is held still")
	}
	for _, clash := range l.Clashes() {
		complain("%s", clash)
	}
	return wrong
}
