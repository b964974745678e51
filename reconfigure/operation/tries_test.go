package operation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTries(t *testing.T) {
	const never, long = 100, time.Hour
	type pauses = []time.Duration // in seconds
	for name, tc := range map[string]struct {
		tries    tries
		succeeds int // the number of the attempt
		refused  int // the number of the attempt that must not be repeated
		ends     time.Duration
		attempts int
		pauses   pauses
	}{
		"success at once": {tries{first: time.Second}, 1, never, long, 1, nil},
		"pauses double":   {tries{first: time.Second}, 4, never, long, 4, pauses{1, 2, 4}},
		"to the longest": {
			tries{first: 2 * time.Second, longest: 5 * time.Second}, 5, never, long, 5, pauses{2, 4, 5, 5},
		},
		"a number of attempts": {tries{first: time.Second, most: 3}, never, never, long, 3, pauses{1, 2}},
		"a time": {
			tries{first: time.Second, within: 6 * time.Second}, never, never, long, 3, pauses{1, 2},
		},
		"not to be repeated":      {tries{first: time.Second}, never, 2, time.Hour, 2, pauses{1}},
		"the end in a pause":      {tries{first: time.Minute}, never, never, 90 * time.Second, 2, pauses{60, 120}},
		"the end before an error": {tries{first: time.Minute}, never, never, 0, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.ends == 0 {
					cancel()
				} else {
					defer time.AfterFunc(tc.ends, cancel).Stop()
				}
				var failures []error
				var paused pauses
				tc.tries.note = func(err error, pause time.Duration) {
					if err != failures[len(failures)-1] {
						t.Errorf("noted %v after %v", err, failures)
					}
					paused = append(paused, pause/time.Second)
				}
				attempts := 0
				err := tc.tries.retry(ctx, func(last error) (bool, error) {
					if attempts > 0 && last != failures[attempts-1] || attempts == 0 && last != nil {
						t.Errorf("attempt %d is told of %v", attempts+1, last)
					}
					if attempts++; attempts == tc.succeeds {
						return true, nil
					}
					failures = append(failures, errors.New("attempt"))
					return attempts != tc.refused, failures[attempts-1]
				})
				if attempts != tc.attempts || !slices.Equal(paused, tc.pauses) {
					t.Errorf("%d attempts, pauses %d", attempts, paused)
				}
				if succeeds := tc.attempts == tc.succeeds; succeeds != (err == nil) ||
					!succeeds && err != failures[len(failures)-1] {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
