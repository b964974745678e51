package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

var errAway = errors.New("the database does not answer")

// away makes the journal fail for a while, and its holder lose the lease, as the restart of a database server does.
func (l *lab) away(d time.Duration) {
	l.journal.Fail(errAway)
	l.journal.LoseLease()
	time.AfterFunc(d, func() { l.journal.Fail(nil) })
}

func TestAWorkerOutlivesAnOutageOfTheJournal(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.StartJob("p1")
		r := ask(reconfigure.Update, "p1")
		r.DrainTimeout = 24 * time.Hour
		l.submit(r)
		_, ended := l.spawn()
		for range 3 { // each is an outage of its own
			pass(30 * time.Minute)
			l.away(9 * time.Minute)
		}
		pass(time.Hour)
		l.EndJob("p1")
		pass(5 * time.Minute)
		l.wantEnds(codes{1: done})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAWorkerEndsWhenTheJournalStaysAway(t *testing.T) {
	for name, away := range map[string]func(*lab){
		"with its lease": func(l *lab) { l.away(5 * time.Hour) },
		"without its lease": func(l *lab) {
			l.journal.Fail(errAway)
			time.AfterFunc(5*time.Hour, func() { l.journal.Fail(nil) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				l.StartJob("p1")
				l.submit(ask(reconfigure.Update, "p1"))
				_, ended := l.spawn()
				pass(time.Hour)
				away(l)
				began := time.Now()
				err := <-ended
				if !errors.Is(err, errAway) || strings.Count(err.Error(), "too long") != 1 {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute {
					t.Errorf("it ended after %s", took)
				}
				pass(6 * time.Hour)
				if waiting := l.pending(); len(waiting) != 1 {
					t.Errorf("waiting: %v", waiting)
				}
			})
		})
	}
}

// A verdict that comes while the journal fails is written when it works again.
func TestAnOutcomeThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.Takes(simulate.Playing, time.Minute)
		l.submit(ask(reconfigure.Resume, "p2"))
		_, ended := l.spawn()
		pass(30 * time.Second)
		l.journal.Fail(errAway)
		pass(2 * time.Minute)
		l.journal.Fail(nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.wantEnds(codes{1: done})
		if n := len(l.plans()); n != 1 {
			t.Errorf("%d plans", n)
		}
	})
}

// refuses fails single calls of the journal, each a number of times.
type refuses struct {
	counting
	begins, finishes atomic.Int32
}

func (r *refuses) Begin(
	ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome,
) (int64, error) {
	if r.begins.Add(-1) >= 0 {
		return 0, errAway
	}
	return r.counting.Begin(ctx, ids, undone...)
}

func (r *refuses) Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	if r.finishes.Add(-1) >= 0 {
		return errAway
	}
	return r.counting.Finish(ctx, outcomes...)
}

func TestWhatTheJournalRefusesIsTriedAgain(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2", "p3")
		l.config = func(c *controller.Config, j *memory.Journal) {
			r := &refuses{counting: counting{j, l}}
			r.begins.Store(3)
			r.finishes.Store(3)
			c.Journal = r
		}
		l.submit(ask(reconfigure.Resume, "p2"))
		l.workers.Go(l.work)
		pass(3 * time.Second)
		l.submit(ask(reconfigure.Resume, "p3"))
		l.workers.Wait()
		l.wantEnds(codes{1: done, 2: done})
		if n := len(l.plans()); n != 2 {
			t.Errorf("%d plans", n)
		}
	})
}

// After the lease is lost, another worker may act on the same nodes. So this one does nothing more, and tells Slurm
// nothing.
func TestNothingIsDoneOrToldAfterTheLeaseIsLost(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2", "p3")
		l.Order(simulate.NoSSH, "p3")
		l.Takes(simulate.Playing, time.Minute)
		l.submit(ask(reconfigure.Resume, "p2", "p3"))
		_, ended := l.spawn()
		pass(30 * time.Second)
		calls := len(l.Calls())
		other := l.journal.Open()
		l.journal.LoseLease()
		release, ok, err := other.Acquire(l.Context())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := <-ended; err != nil { // the new holder of the lease does the rest
			t.Error(err)
		}
		pass(time.Hour)
		l.wantEnds(codes{})
		if more := l.Calls()[calls:]; len(more) > 0 {
			t.Errorf("it did %v", more)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

func TestAWorkerThatLosesTheLeaseAcquiresItAgain(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.Takes(simulate.Playing, time.Minute)
		l.submit(ask(reconfigure.Resume, "p2"))
		_, ended := l.spawn()
		pass(30 * time.Second)
		l.away(time.Minute)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.wantEnds(codes{1: done})
		if n := len(l.plans()); n != 2 || l.leased() {
			t.Errorf("%d plans; leased still: %t", n, l.leased())
		}
		if doubled := l.Doubled(); len(doubled) > 0 {
			t.Errorf("%v got a second instance", doubled)
		}
	})
}

// A worker that is stopped gives no verdict on what it has not finished. Its programs end gracefully, and the next
// worker goes on.
func TestAStoppedWorkerLeavesTheRequests(t *testing.T) {
	for name, when := range map[string]time.Duration{
		"while it waits for others": 100 * time.Millisecond, "while Terraform applies": 1200 * time.Millisecond,
		"while the playbooks run": 10 * time.Second, "while p3 boots": 30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				l.PowersUp("p2", "p3")
				l.Takes(simulate.Playing, 20*time.Second)
				l.Takes(simulate.Booting, time.Minute, "p3")
				l.submit(ask(reconfigure.Resume, "p2", "p3"), ask(reconfigure.Suspend, "p3"))
				stop, ended := l.spawn()
				pass(when)
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				l.wantEnds(codes{})
				if l.leased() {
					t.Error("it holds the lease still")
				}
				if slices.ContainsFunc(l.Calls(), func(call string) bool {
					return strings.Contains(call, "delete") || strings.Contains(call, "down")
				}) {
					t.Errorf("calls %v", l.Calls())
				}
				l.work()
				l.wantEnds(codes{1: done, 2: failed}) // a job runs on p3 by then
				if doubled := l.Doubled(); len(doubled) > 0 {
					t.Errorf("%v got a second instance", doubled)
				}
			})
		})
	}
}

func TestAWorkerThatIsStoppedWhileItLooksLeavesTheRequestAsItIs(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.submit(ask(reconfigure.Deploy))
		ctx, stop := context.WithCancel(l.Context())
		l.config = func(c *controller.Config, _ *memory.Journal) {
			c.Open = func(ctx context.Context) (controller.Site, error) {
				stop()
				<-ctx.Done()
				return controller.Site{}, context.Cause(ctx)
			}
		}
		if err := l.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if waiting := l.pending(); len(waiting) != 1 || waiting[0].IsDeferred() {
			t.Errorf("waiting: %+v", waiting)
		}
	})
}

// comes is a journal to which a caller writes between the last look of a worker and the end of its lease.
type comes struct {
	counting
	come func()
}

func (c *comes) Acquire(ctx context.Context) (func() error, bool, error) {
	release, ok, err := c.counting.Acquire(ctx)
	return func() error {
		if come := c.come; come != nil {
			c.come = nil
			come()
		}
		return release()
	}, ok, err
}

func TestARequestBeforeTheEndOfTheLeaseIsNotMissed(t *testing.T) {
	for name, once := range map[string]bool{"a worker that ends": false, "a worker for what can be done now": true} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				l.PowersUp("p2", "p3")
				l.submit(ask(reconfigure.Resume, "p2"))
				l.config = func(c *controller.Config, j *memory.Journal) {
					c.Once = once
					c.Journal = &comes{counting{j, l}, func() {
						l.config = nil
						l.submit(ask(reconfigure.Resume, "p3"))
						l.work() // it ends at once, since somebody holds the lease
					}}
				}
				l.work()
				l.wantEnds(codes{1: done, 2: done})
			})
		})
	}
}

// Events are durable before the verdicts that they lead to.
func TestEventsAreFlushedBeforeVerdictsAreWritten(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2", "p3")
		l.Takes(simulate.Playing, time.Minute, "p3")
		var unflushed atomic.Bool
		l.config = func(c *controller.Config, j *memory.Journal) {
			c.Journal = watched{counting{j, l}, func() {
				if unflushed.Load() {
					t.Error("a verdict is written before the events")
				}
			}}
			open := c.Open
			c.Open = func(ctx context.Context) (controller.Site, error) {
				site, err := open(ctx)
				site.Deps.Recorder = buffered{recorder{j}, &unflushed}
				return site, err
			}
			c.Flush = func(context.Context) error { unflushed.Store(false); return nil }
		}
		l.submit(ask(reconfigure.Resume, "p2", "p3"))
		l.work()
		l.wantEnds(codes{1: done})
	})
}

type buffered struct {
	recorder
	unflushed *atomic.Bool
}

func (b buffered) Record(events ...reconfigure.Event) {
	if slices.ContainsFunc(events, func(e reconfigure.Event) bool { return e.Node == "p2" }) {
		b.unflushed.Store(true)
	}
	b.recorder.Record(events...)
}

type watched struct {
	counting
	writes func()
}

func (w watched) Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	w.writes()
	return w.counting.Defer(ctx, outcomes...)
}

func (w watched) Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	w.writes()
	return w.counting.Finish(ctx, outcomes...)
}

// The verdicts of a worker that dies are not lost.
func TestVerdictsOutliveTheirWorker(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2", "p3")
		l.Order(simulate.NoValidHost, "p2")
		l.Takes(simulate.Playing, time.Minute, "p3")
		l.submit(ask(reconfigure.Resume, "p2", "p3"))
		stop, ended := l.spawn()
		pass(30 * time.Second)
		stop()
		<-ended
		l.Clear(simulate.NoValidHost)
		l.work()
		l.wantSaid(1, partial, statuses{"p2": reconfigure.StatusFailed, "p3": reconfigure.StatusDone})
	})
}
