package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// stays starts a worker that stays, and that may compare the sources.
func (l *lab) stays(reconcile func(context.Context) (time.Duration, bool)) (stop func(), ended <-chan error) {
	l.config = func(c *controller.Config, _ *memory.Journal) { c.Stay, c.Reconcile = reconcile == nil, reconcile }
	stop, ended = l.spawn()
	l.config = nil
	return stop, ended
}

func hasEnded(ended <-chan error) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func TestAWorkerThatStaysNoticesRequestsAtOnce(t *testing.T) {
	test(t, nil, func(l *lab) {
		stop, ended := l.stays(nil)
		pass(time.Hour)
		if hasEnded(ended) || len(l.plans()) > 0 {
			t.Fatal("it has ended, or planned for nothing")
		}
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		pass(10 * time.Second)
		l.wantEnds(codes{1: done})
		l.wantTook(1, 0, 5*time.Second)
		stop()
		<-ended
		if l.leased() {
			t.Error("it holds the lease still")
		}
	})
}

// A supervisor starts the new program, which plans what is left.
func TestAWorkerWhoseProgramWasReplacedEndsAfterItsOperations(t *testing.T) {
	test(t, nil, func(l *lab) {
		var replaced atomic.Bool
		l.config = func(c *controller.Config, _ *memory.Journal) { c.Stay, c.Replaced = true, replaced.Load }
		_, ended := l.spawn()
		l.config = nil
		l.Takes(simulate.Building, time.Minute)
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		pass(3 * time.Second) // its operation is under way
		replaced.Store(true)
		l.PowersUp("p3")
		l.submit(ask(reconfigure.Resume, "p3"))
		pass(2 * time.Second)
		if hasEnded(ended) {
			t.Fatal("it has ended before its operation")
		}
		pass(5 * time.Minute)
		if !hasEnded(ended) || l.leased() {
			t.Fatal("it goes on as the old program")
		}
		l.wantEnds(codes{1: done})
		stop, ended := l.stays(nil)
		pass(5 * time.Minute)
		l.wantEnds(codes{1: done, 2: done})
		stop()
		<-ended
	})
}

// One that waits for another one's lease is replaced as well.
func TestAWorkerWithoutTheLeaseEndsWhenItsProgramWasReplaced(t *testing.T) {
	test(t, nil, func(l *lab) {
		stop, first := l.stays(nil)
		pass(time.Second)
		var replaced atomic.Bool
		l.config = func(c *controller.Config, _ *memory.Journal) { c.Stay, c.Replaced = true, replaced.Load }
		_, second := l.spawn()
		l.config = nil
		pass(time.Minute)
		if hasEnded(second) {
			t.Fatal("it does not stay")
		}
		replaced.Store(true)
		pass(time.Minute)
		if !hasEnded(second) || hasEnded(first) {
			t.Errorf("it has ended: %t; the one with the lease: %t", hasEnded(second), hasEnded(first))
		}
		stop()
		<-first
	})
}

// comparing counts the comparisons of the sources, each of which takes some time.
type comparing struct {
	n     atomic.Int32
	takes time.Duration
	find  func(n int)
	never atomic.Bool // it is no longer declared
}

func (c *comparing) reconcile(ctx context.Context) (time.Duration, bool) {
	n := c.n.Add(1)
	select {
	case <-ctx.Done():
	case <-time.After(c.takes):
	}
	if c.find != nil {
		c.find(int(n))
	}
	return time.Minute, !c.never.Load()
}

func TestSourcesAreComparedBesideOperations(t *testing.T) {
	test(t, nil, func(l *lab) {
		c := &comparing{}
		l.StartJob("p1")
		l.PowersUp("p2")
		l.Order(simulate.NoSSH, "p2")
		stop, ended := l.stays(c.reconcile)
		l.submit(ask(reconfigure.Update, "p1"), ask(reconfigure.Resume, "p2")) // one is deferred, and one is under way
		pass(4 * time.Minute)
		if n := c.n.Load(); n < 4 || len(l.ends()) > 0 {
			t.Errorf("compared %d times; ends %v", n, l.ends())
		}
		stop()
		<-ended
	})
}

// A comparison may take long. It delays no request, and waits for none.
func TestAComparisonDelaysNoRequest(t *testing.T) {
	test(t, nil, func(l *lab) {
		c := &comparing{takes: 20 * time.Minute}
		stop, ended := l.stays(c.reconcile)
		pass(time.Minute)
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		pass(30 * time.Second)
		l.wantEnds(codes{1: done})
		stop()
		<-ended
	})
}

func TestWhatAComparisonAsksForIsARequestLikeAnyOther(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		c := &comparing{}
		c.find = func(n int) {
			if n == 2 {
				l.PowersDown("p2")
				l.submit(ask(reconfigure.Suspend, "p2"))
			}
		}
		stop, ended := l.stays(c.reconcile)
		pass(5 * time.Minute)
		l.wantEnds(codes{1: done})
		stop()
		<-ended
	})
}

func TestAWorkerEndsWhenNothingIsComparedAnyMore(t *testing.T) {
	test(t, nil, func(l *lab) {
		c := &comparing{}
		_, ended := l.stays(c.reconcile)
		pass(5 * time.Minute)
		if hasEnded(ended) {
			t.Error("it has ended before")
		}
		c.never.Store(true)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNothingIsComparedDuringAPause(t *testing.T) {
	test(t, nil, func(l *lab) {
		if err := l.journal.Pause(l.Context(), "a disk is swapped", "alice"); err != nil {
			t.Fatal(err)
		}
		c := &comparing{}
		l.config = func(config *controller.Config, _ *memory.Journal) {
			config.Stay, config.Reconcile = true, c.reconcile
		}
		stop, ended := l.spawn()
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		pass(10 * time.Minute)
		if hasEnded(ended) || c.n.Load() > 0 || len(l.ends()) > 0 {
			t.Errorf("compared %d times; ends %v", c.n.Load(), l.ends())
		}
		if err := l.journal.Continue(l.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		l.wantEnds(codes{1: done})
		stop()
		<-ended
	})
}

// One process stays; another one takes over when it ends.
func TestOneProcessHoldsTheLease(t *testing.T) {
	test(t, nil, func(l *lab) {
		stop, ended := l.stays(nil)
		_, short := l.spawn()
		second, waits := l.stays(nil)
		pass(time.Hour)
		if !hasEnded(short) || hasEnded(waits) {
			t.Error("the worker for one call has not ended, or the one that stays has")
		}
		stop()
		<-ended
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		pass(10 * time.Second)
		l.wantEnds(codes{1: done})
		second()
		<-waits
	})
}

func (l *lab) once() {
	l.Helper()
	l.config = func(c *controller.Config, _ *memory.Journal) { c.Once = true }
	l.work()
	l.config = nil
}

func TestOnceDoesNotStayForDeferredRequests(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.StartJob("p1")
		l.PowersUp("p2")
		// The suspend waits for the update.
		l.submit(ask(reconfigure.Update, "p1"), ask(reconfigure.Resume, "p2"), ask(reconfigure.Suspend, "p1"))
		began := time.Now()
		l.once()
		l.wantEnds(codes{2: done})
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it stayed for %s", took)
		}
		plans := len(l.plans())
		l.once() // the job still runs
		l.wantEnds(codes{2: done})
		if n := len(l.plans()); n != plans {
			t.Errorf("%d plans, although there is nothing to do", n-plans)
		}
		l.EndJob("p1")
		l.once()
		l.wantEnds(codes{1: done, 2: done, 3: failed})
	})
}

func TestOnceDoesNotWaitForTheJournal(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.journal.Fail(errAway)
		l.config = func(c *controller.Config, _ *memory.Journal) { c.Once = true }
		began := time.Now()
		if err := l.run(l.Context()); err == nil || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		l.journal.Fail(nil)
	})
}

// TestAWorkerThatComparesEndsInAPause has a worker that does not know yet whether the sources are to be compared.
func TestAWorkerThatComparesEndsInAPause(t *testing.T) {
	test(t, nil, func(l *lab) {
		if err := l.journal.Pause(l.Context(), "a disk is swapped", "alice"); err != nil {
			t.Fatal(err)
		}
		l.config = func(config *controller.Config, _ *memory.Journal) { config.Reconcile = (&comparing{}).reconcile }
		stop, ended := l.spawn()
		pass(time.Minute)
		if !hasEnded(ended) {
			t.Error("it stays")
			stop()
		}
	})
}

// The call finds the lease taken, and leaves its request to the holder, which looks for no more requests.
func TestARequestThatComesWhileAWorkerEndsIsCarriedOut(t *testing.T) {
	for name, comes := range map[string]bool{"one comes": true, "none comes": false} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				var ends atomic.Bool
				var successors atomic.Int32
				l.config = func(c *controller.Config, _ *memory.Journal) {
					c.Flush = func(context.Context) error {
						if ends.Load() {
							time.Sleep(10 * time.Second)
						}
						return nil
					}
					c.Succeed = func(context.Context) error {
						successors.Add(1)
						l.workers.Go(l.work)
						return nil
					}
				}
				l.Takes(simulate.Playing, time.Minute)
				l.PowersUp("p2", "p3")
				l.submit(ask(reconfigure.Resume, "p2"))
				stop, ended := l.spawn()
				pass(30 * time.Second)
				ends.Store(true)
				stop()
				pass(time.Second)
				if !l.leased() {
					t.Error("the worker has ended already")
				}
				if comes {
					l.calls(reconfigure.Resume, "p3")
				}
				ends.Store(false)
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("the worker ended with %v", err)
				}
				pass(5 * time.Minute)
				if comes {
					l.wantEnds(codes{1: done, 2: done})
				} else {
					l.wantEnds(codes{}) // the requests stay for the next worker
				}
				if n := successors.Load(); (n == 1) != comes {
					t.Errorf("%d successors", n)
				}
			})
		})
	}
}
