package batcher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
)

type run = batcher.Run[int, string]

// log records the runs of a batcher, each as "when: inputs".
type log struct {
	lock  sync.Mutex
	began time.Time
	runs  []string
}

func (l *log) note(r *run) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.runs = append(l.runs, fmt.Sprintf("%s: %v", time.Since(l.began), inputs(r)))
}

func inputs(r *run) []int {
	var in []int
	for _, c := range r.Calls {
		in = append(in, c.In)
	}
	return in
}

func (l *log) want(t *testing.T, runs ...string) {
	t.Helper()
	l.lock.Lock()
	defer l.lock.Unlock()
	if diff := cmp.Diff(runs, l.runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// begin makes a batcher whose runs are logged.
func begin(config batcher.Config, do func(*run)) (*batcher.Batcher[int, string], *log) {
	l := &log{began: time.Now()}
	return batcher.New(config, func(r *run) {
		l.note(r)
		do(r)
	}), l
}

// each finishes every call with its input as the result, after a delay.
func each(d time.Duration) func(*run) {
	return func(r *run) {
		time.Sleep(d)
		for _, c := range r.Calls {
			c.Finish(fmt.Sprint(c.In), nil)
		}
	}
}

// calls starts callers one after another, each after its delay, and waits for all of them.
func calls(t *testing.T, b *batcher.Batcher[int, string], apart time.Duration, in ...int) {
	t.Helper()
	var all sync.WaitGroup
	for i, n := range in {
		if i > 0 {
			time.Sleep(apart)
		}
		all.Go(func() {
			if out, err := b.Do(t.Context(), n); err != nil || out != fmt.Sprint(n) {
				t.Errorf("the call of %d got %q, error %v", n, out, err)
			}
		})
		synctest.Wait() // so that the calls are in order
	}
	all.Wait()
}

func TestOneRunIsUnderWayAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{}, each(time.Minute))
		calls(t, b, 9*time.Second, 1, 2, 3, 4, 5, 6, 7, 8)
		l.want(t, "0s: [1]", "1m0s: [2 3 4 5 6 7]", "2m0s: [8]")
	})
}

func TestEachCallHasItsResultAsSoonAsItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := begin(batcher.Config{Quiet: time.Second, Longest: time.Minute}, func(r *run) {
			for _, c := range r.Calls {
				time.Sleep(time.Minute)
				c.Finish("first", nil)
				c.Finish("second", errors.New("too late"))
			}
		})
		began := time.Now()
		var lock sync.Mutex
		took := map[int]time.Duration{}
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				out, err := b.Do(t.Context(), n)
				if out != "first" || err != nil {
					t.Errorf("%d got %q, error %v", n, out, err)
				}
				lock.Lock()
				defer lock.Unlock()
				took[n] = time.Since(began)
			})
			synctest.Wait()
		}
		all.Wait()
		want := map[int]time.Duration{0: 61 * time.Second, 1: 121 * time.Second, 2: 181 * time.Second}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARunBeginsWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Second, Longest: time.Minute}, each(0))
		calls(t, b, 600*time.Millisecond, 1, 2, 3)
		l.want(t, "2.2s: [1 2 3]")
	})
}

func TestARunBeginsWhenItIsNeverQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Second, Longest: 2 * time.Second}, each(0))
		calls(t, b, 900*time.Millisecond, 1, 2, 3, 4)
		l.want(t, "2s: [1 2 3]", "3.7s: [4]")
	})
}

// The time that calls waited before the run counts.
func TestTheWaitForQuietBeginsWithTheFirstThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Second, Longest: 3 * time.Second}, each(10*time.Second))
		calls(t, b, 4*time.Second, 1, 2, 3)
		l.want(t, "1s: [1]", "11s: [2 3]")
	})
}

func TestARunHasNoMoreCallsThanItMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Minute, Longest: time.Hour, Most: 2}, each(time.Second))
		calls(t, b, 0, 1, 2, 3, 4, 5)
		l.want(t, "0s: [1 2]", "1s: [3 4]", "1m0s: [5]")
	})
}

func TestACallerThatLeavesIsInNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{}, each(time.Minute))
		var all sync.WaitGroup
		all.Go(func() { _, _ = b.Do(t.Context(), 1) })
		synctest.Wait()
		all.Go(func() { _, _ = b.Do(t.Context(), 3) })
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if out, err := b.Do(ctx, 2); !errors.Is(err, gone) || out != "" {
			t.Errorf("it got %q, error %v", out, err)
		}
		if passed := time.Since(l.began); passed != time.Second {
			t.Errorf("it left after %s", passed)
		}
		all.Wait()
		l.want(t, "0s: [1]", "1m0s: [3]")
	})
}

func TestARunGoesOnWithoutACallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := []bool{}
		b, l := begin(batcher.Config{}, func(r *run) {
			finished = append(finished, r.Calls[0].Finished())
			time.Sleep(time.Minute)
			finished = append(finished, r.Calls[0].Finished())
			if r.Calls[0].Context().Err() == nil {
				t.Error("the caller still waits")
			}
			r.Calls[0].Finish("for nobody", nil)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Do(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		l.want(t, "0s: [1]")
		if !slices.Equal(finished, []bool{false, true}) {
			t.Errorf("finished: %v", finished)
		}
	})
}

// If all waiting callers leave, there is no run, and the next call is served.
func TestNoRunWithoutACallThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Minute, Longest: time.Hour}, each(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = b.Do(ctx, 1)
		calls(t, b, 0, 2)
		l.want(t, "1m1s: [2]")
	})
}

func TestARunLearnsThatOthersWaitAndTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Most: 1}, func(r *run) {
			select {
			case <-r.Awaited():
				t.Error("others wait already")
			default:
			}
			<-r.Awaited()
			heard := time.Now()
			<-r.Awaited() // it stays closed
			if len(r.Calls) != 1 {
				t.Errorf("the run has %v", inputs(r))
			}
			time.Sleep(time.Second)
			r.More()
			if got := inputs(r); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("the run has %v", got)
			}
			select {
			case <-r.Awaited():
				t.Error("no caller waits")
			default:
			}
			if time.Since(heard) != time.Second {
				t.Error("it learned of them too late")
			}
			each(0)(r)
		})
		calls(t, b, 500*time.Millisecond, 1, 2, 3)
		l.want(t, "0s: [1]")
	})
}

func TestARunBeginsSoonUnlessAnotherCallIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var came atomic.Int64
		expected := func() bool { return came.Add(1) < 3 }
		b, l := begin(batcher.Config{Quiet: time.Second, Longest: time.Minute, Expected: expected}, each(0))
		calls(t, b, 100*time.Millisecond, 1, 2, 3)
		l.want(t, "210ms: [1 2 3]")
	})
}

func TestARunLeavesCallsToTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(batcher.Config{Quiet: time.Second, Longest: time.Minute}, func(r *run) {
			more := r.Awaited()
			r.Limit(2)
			if got := inputs(r); !slices.Equal(got, []int{1, 2}) && !slices.Equal(got, []int{3, 4}) &&
				!slices.Equal(got, []int{5}) {
				t.Errorf("the run has %v", got)
			}
			select {
			case <-more:
			default:
				if len(inputs(r)) == 2 {
					t.Error("nobody learned that others wait")
				}
			}
			each(time.Minute)(r)
		})
		calls(t, b, 0, 1, 2, 3, 4, 5)
		l.want(t, "1s: [1 2 3 4 5]", "1m1s: [3 4 5]", "2m1s: [5]") // as they begin
	})
}

func TestACallWithoutAResultIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := begin(batcher.Config{}, func(*run) {})
		if _, err := b.Do(t.Context(), 1); !errors.Is(err, batcher.ErrUnfinished) {
			t.Errorf("error %v", err)
		}
		calls := 0
		b, _ = begin(batcher.Config{}, func(r *run) {
			calls++
			r.Calls[0].Finish("", errors.New("its own"))
		})
		if _, err := b.Do(t.Context(), 1); err == nil || err.Error() != "its own" || calls != 1 {
			t.Errorf("%d calls, error %v", calls, err)
		}
	})
}

// Under load, no call is lost or gets another call's result, and runs never overlap.
func TestManyCallersAtOnce(t *testing.T) {
	var lock sync.Mutex
	most := 0
	b := batcher.New(batcher.Config{Most: 7}, func(r *run) {
		if !lock.TryLock() {
			t.Error("two runs at a time")
			return
		}
		defer lock.Unlock()
		most = max(most, len(r.Calls))
		var all sync.WaitGroup
		for _, c := range r.Calls {
			all.Go(func() { c.Finish(fmt.Sprint(c.In), nil) })
		}
		all.Wait()
	})
	var all sync.WaitGroup
	for n := range 2000 {
		all.Go(func() {
			if out, err := b.Do(context.Background(), n); err != nil || out != fmt.Sprint(n) {
				t.Errorf("%d got %q, error %v", n, out, err)
			}
		})
	}
	all.Wait()
	if most > 7 {
		t.Errorf("a run had %d calls", most)
	}
}

// The run ends because its caller has left, and reports that it was canceled.
func TestACallerThatLeavesKnowsWhyThoughItsRunWasCanceled(t *testing.T) {
	late := errors.New("it is late")
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			b, _ := begin(batcher.Config{}, func(r *run) {
				cancel(late)
				r.Calls[0].Finish("", fmt.Errorf("the playbooks: %w", context.Canceled))
			})
			if _, err := b.Do(ctx, 1); !errors.Is(err, late) {
				t.Fatalf("it left because of %v, want %v", err, late)
			}
		})
	}
}

// A run continues after its callers have left. Config.Under also counts such a run, and one that is about to begin.
func TestRunsWithoutCallersAreUnderWay(t *testing.T) {
	for name, leaves := range map[string]time.Duration{
		"before it begins": 500 * time.Millisecond, "during it": 2 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var under sync.WaitGroup
				ended := time.Time{}
				b, l := begin(batcher.Config{Quiet: time.Second, Longest: time.Minute, Under: &under}, func(*run) {
					time.Sleep(time.Minute)
					ended = time.Now()
				})
				ctx, leave := context.WithTimeout(t.Context(), leaves)
				defer leave()
				under.Go(func() {
					if _, err := b.Do(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error %v", err)
					}
				})
				under.Wait()
				if began := len(l.runs) > 0; began && !ended.Equal(time.Now()) {
					t.Errorf("it is %s, and the run has ended at %s", time.Now(), ended)
				}
			})
		})
	}
}
