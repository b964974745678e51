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
