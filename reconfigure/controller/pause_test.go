package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

func (l *lab) pause() {
	l.Helper()
	if err := l.journal.Pause(context.WithoutCancel(l.Context()), "a disk is swapped", "alice"); err != nil {
		l.Error(err)
	}
}

func (l *lab) goOn() {
	l.Helper()
	if err := l.journal.Continue(context.WithoutCancel(l.Context())); err != nil {
		l.Error(err)
	}
}

// Operations under way go on to their end.
func TestNothingBeginsDuringAPause(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2", "p3")
		l.Takes(simulate.Playing, time.Minute)
		l.submit(ask(reconfigure.Resume, "p2"), ask(reconfigure.Update, "p2"))
		_, ended := l.spawn()
		pass(10 * time.Second)
		l.pause()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.wantEnds(codes{1: done})
		l.submit(ask(reconfigure.Resume, "p3"))
		l.work()
		l.once()
		l.wantEnds(codes{1: done})
		l.goOn()
		l.spawn()
		pass(2 * time.Minute)
		l.wantEnds(codes{1: done, 2: done, 3: done})
	})
}

func TestAWorkerEndsInAPauseWithDeferredRequests(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.StartJob("p1")
		r := ask(reconfigure.Update, "p1")
		r.DrainTimeout = 10 * time.Hour
		l.submit(r)
		_, ended := l.spawn()
		pass(time.Minute)
		l.pause()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.EndJob("p1")
		pass(2 * time.Hour)
		l.wantEnds(codes{})
		l.goOn()
		l.work()
		l.wantEnds(codes{1: done})
	})
}

// A pause that comes between the look and the beginning is noticed by the journal.
func TestAPauseThatComesWhileItLooks(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.config = func(c *controller.Config, _ *memory.Journal) {
			open := c.Open
			c.Open = func(ctx context.Context) (controller.Site, error) { l.pause(); return open(ctx) }
		}
		l.submit(ask(reconfigure.Resume, "p2"))
		l.work()
		l.wantEnds(codes{})
		l.wantCalls()
		if r := l.pending()[0]; r.Touched || r.IsDeferred() {
			t.Errorf("the request is %+v", r)
		}
	})
}

// The end of a pause is not missed while a worker ends because of the pause.
func TestAPauseThatEndsWhileTheLeaseIsReleased(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.pause()
		l.submit(ask(reconfigure.Resume, "p2"))
		l.config = func(c *controller.Config, j *memory.Journal) {
			c.Journal = &comes{counting{j, l}, func() {
				l.config = nil
				l.goOn()
				l.work() // it sees that somebody holds the lease
			}}
		}
		l.work()
		l.wantEnds(codes{1: done})
	})
}

// A request that is cancelled or paused in the window for further requests does not begin, nor if the worker is
// stopped.
func TestACancelOrPauseInTheWindowKeepsARequestFromBeginning(t *testing.T) {
	for name, end := range map[string]func(l *lab, stop func()){
		"it is taken back":     func(l *lab, _ func()) { _ = l.journal.Cancel(l.Context(), 1) },
		"there is a pause":     func(l *lab, _ func()) { l.pause() },
		"the worker is to end": func(_ *lab, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				l.Have("p2")
				l.PowersDown("p2")
				l.submit(ask(reconfigure.Suspend, "p2"))
				stop, ended := l.spawn()
				pass(200 * time.Millisecond)
				end(l, stop)
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if len(l.plans()) > 0 || l.leased() || len(l.Calls()) > 0 {
					t.Errorf("plans %v, leased still %t, calls %v", l.plans(), l.leased(), l.Calls())
				}
			})
		})
	}
}

func TestRequestsThatComeTogetherArePlannedTogether(t *testing.T) {
	milliseconds := func(all ...int) (ds []time.Duration) {
		for _, ms := range all {
			ds = append(ds, time.Duration(ms)*time.Millisecond)
		}
		return ds
	}
	const suspend, resume = reconfigure.Suspend, reconfigure.Resume
	for name, tc := range map[string]struct {
		arrivals []time.Duration
		mode     reconfigure.Mode
		longest  time.Duration
		skew     time.Duration // of the clock of those who submit
		want     []int         // requests of each plan
		within   time.Duration // the first one began
	}{
		"one":              {milliseconds(0), suspend, 3 * time.Second, 0, []int{1}, 600 * time.Millisecond},
		"some":             {milliseconds(0, 1, 100, 250), suspend, 3 * time.Second, 0, []int{4}, 900 * time.Millisecond},
		"without a window": {milliseconds(0, 400), suspend, 0, 0, []int{1, 1}, 0},
		"they keep coming": {
			milliseconds(0, 200, 400, 600, 800, 1000, 1200, 1400), suspend, time.Second, 0, nil,
			1300 * time.Millisecond,
		},
		"a clock is ahead":        {milliseconds(0, 100), suspend, time.Second, time.Hour, []int{2}, time.Second},
		"a clock is behind":       {milliseconds(0, 2000), suspend, time.Second, -time.Hour, []int{1, 1}, 0},
		"one comes after the end": {milliseconds(0, 2000), suspend, time.Second, 0, []int{1, 1}, time.Second},
		"a resume does not wait":  {milliseconds(0, 400), resume, 3 * time.Second, 0, []int{1, 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				l.config = func(c *controller.Config, _ *memory.Journal) { c.Stay, c.Timing.Longest = true, tc.longest }
				stop, ended := l.spawn()
				l.cluster.Settings.Gather = tc.longest
				pass(0)
				l.start = time.Now()
				for i, after := range tc.arrivals {
					time.Sleep(time.Until(l.start.Add(after)))
					node := fmt.Sprint("p", i+2)
					if tc.mode == resume {
						l.PowersUp(node)
					} else {
						l.Have(node)
						l.PowersDown(node)
					}
					r := ask(tc.mode, node)
					r.Submitted = time.Now().Add(tc.skew)
					if _, err := l.journal.Submit(l.Context(), r); err != nil {
						t.Error(err)
					}
				}
				pass(20 * time.Second)
				stop()
				<-ended
				var sizes []int
				for _, p := range l.plans() {
					sizes = append(sizes, len(p.ids))
				}
				if diff := cmp.Diff(tc.want, sizes); tc.want != nil && diff != "" {
					t.Errorf("plans (-want +got):\n%s", diff)
				}
				if len(sizes) == 0 {
					t.Fatal("nothing was planned")
				}
				if first := l.plans()[0].after; first > tc.within+250*time.Millisecond { // the interval of its looks
					t.Errorf("the first one began after %s", first)
				}
			})
		})
	}
}
