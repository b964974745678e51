// Package sleep waits between two attempts.
package sleep

import (
	"context"
	"time"
)

// For waits for a time. If ctx ends first, it returns the cause at once.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause returns the time until the next look at something that began this long ago: a quarter of that time, at least a
// fifth of the longest pause, and at most the longest one. So the end of what takes a moment is seen soon, and what
// takes long is looked at seldom.
func Pause(passed, longest time.Duration) time.Duration {
	return min(max(passed/4, longest/5), longest)
}
