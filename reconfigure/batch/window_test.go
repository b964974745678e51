package batch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
)

// clocked finishes what it is given after a while, and notes when each batch began and how many requests it had.
type clocked struct {
	start time.Time
	takes time.Duration
	begun []string
}

func (c *clocked) Carry(_ context.Context, _ int64, requests []reconfigure.Request, _ func()) ([]reconfigure.Outcome, error) {
	c.begun = append(c.begun, fmt.Sprintf("%d after %s", len(requests), time.Since(c.start)))
	time.Sleep(c.takes)
	var outcomes []reconfigure.Outcome
	for _, r := range requests {
		outcomes = append(outcomes, reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone})
	}
	return outcomes, nil
}

func (*clocked) Stirs(context.Context, []reconfigure.Request) (bool, error) { return false, nil }

func TestRequestsThatArriveTogetherGoTogether(t *testing.T) {
	const ahead = time.Hour // of a clock that is wrong
	for name, tc := range map[string]struct {
		arrivals []time.Duration // after the start
		skew     time.Duration   // of the clock of those who write requests down
		options  []batch.Option
		want     []string
	}{
		"no window":               {arrivals: at(0, 1), options: window(0), want: []string{"1 after 0s", "1 after 20s"}},
		"a wide window":           {arrivals: at(0, 29_999, 30_001), options: window(30 * time.Second), want: []string{"2 after 30s", "1 after 1m0.001s"}},
		"one":                     {arrivals: at(0), want: []string{"1 after 1s"}},
		"some within a second":    {arrivals: at(0, 1, 500, 999), want: []string{"4 after 1s"}},
		"a clock is ahead":        {arrivals: at(0, 500), skew: ahead, want: []string{"2 after 1s"}},
		"a clock is behind":       {arrivals: at(0, 500), skew: -ahead, want: []string{"1 after 0s", "1 after 20s"}},
		"the batch is the window": {arrivals: at(0, 2000, 3000, 19_000), want: []string{"1 after 1s", "3 after 21s"}},
		"one comes at its end":    {arrivals: at(0, 20_900), want: []string{"1 after 1s", "1 after 21.9s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, c := &memory{}, &clocked{start: time.Now(), takes: 20 * time.Second}
				var callers sync.WaitGroup
				for i, after := range tc.arrivals {
					callers.Go(func() {
						time.Sleep(after)
						r := request(i+1, reconfigure.Resume, fmt.Sprint("n", i))
						r.Submitted = time.Now().Add(tc.skew)
						log.submit(r)
						if err := batch.Work(t.Context(), log, c, poll, tc.options...); err != nil {
							t.Error(err)
						}
					})
				}
				callers.Wait()
				if diff := cmp.Diff(tc.want, c.begun); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func window(d time.Duration) []batch.Option {
	return []batch.Option{batch.Window(func() time.Duration { return d })}
}

func at(milliseconds ...int) []time.Duration {
	var all []time.Duration
	for _, ms := range milliseconds {
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	return all
}

// What is taken back or paused while others are waited for does not begin, nor does anything when the worker is to end.
func TestWhatEndsInTheWindowDoesNotBegin(t *testing.T) {
	for name, end := range map[string]func(log *memory, stop context.CancelFunc) error{
		"it is taken back": func(log *memory, _ context.CancelFunc) error {
			return log.Finish(context.Background(), reconfigure.Outcome{Request: 1, Code: reconfigure.CodeCancelled})
		},
		"there is a pause":     func(log *memory, _ context.CancelFunc) error { log.pause(true); return nil },
		"the worker is to end": func(_ *memory, stop context.CancelFunc) error { stop(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				log, c := &memory{}, &clocked{start: time.Now()}
				r := request(1, reconfigure.Resume, "n1")
				r.Submitted = time.Now()
				log.submit(r)
				ended := make(chan error, 1)
				go func() { ended <- batch.Work(ctx, log, c, poll) }()
				pass(500 * time.Millisecond)
				if err := end(log, stop); err != nil {
					t.Error(err)
				}
				if err := <-ended; err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if len(c.begun) > 0 || log.leads {
					t.Errorf("begun: %v; it leads still: %t", c.begun, log.leads)
				}
			})
		})
	}
}
