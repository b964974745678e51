// Package await polls for conditions in tests on machines of the lab.
package await

import (
	"context"
	"time"
)

// The pauses between two looks grow, since a look starts processes, and several tests look at the same time.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// Until polls until a condition is true. It returns false at the time limit or when ctx ends.
func Until(ctx context.Context, limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := firstPause; !condition(); pause = min(pause*3/2, maxPause) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
