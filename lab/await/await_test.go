package await_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/await"
)

func TestUntil(t *testing.T) {
	for what, c := range map[string]struct {
		holds, ends   time.Duration // since the call; zero: never
		want          bool
		before, after time.Duration
	}{
		"it holds at once":     {holds: -1, want: true},
		"it holds later":       {holds: time.Minute, want: true, after: time.Minute, before: time.Minute + time.Second},
		"it never holds":       {after: 2 * time.Minute, before: 2*time.Minute + time.Second},
		"the test ends before": {ends: time.Minute, after: time.Minute, before: time.Minute + time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, start, looks := t.Context(), time.Now(), 0
				if c.ends > 0 {
					limited, cancel := context.WithTimeout(ctx, c.ends)
					defer cancel()
					ctx = limited
				}
				got := await.Until(ctx, 2*time.Minute, func() bool {
					looks++
					return c.holds != 0 && time.Since(start) >= c.holds
				})
				took := time.Since(start)
				if got != c.want || took < c.after || took > c.before || looks > int(took/(400*time.Millisecond))+10 {
					t.Errorf("%v after %s and %d looks", got, took, looks)
				}
			})
		})
	}
}
