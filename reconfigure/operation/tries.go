package operation

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// tries limits how often a step is repeated, and how soon.
type tries struct {
	first   time.Duration // the pause before the second attempt; it doubles with each
	longest time.Duration // the longest pause; zero: an hour
	most    uint          // the number of attempts; zero: as many as there is time for
	within  time.Duration // the time in which the last attempt must begin; zero: any
	// note is called with each failure before its pause. Nil: nothing is noted.
	note func(err error, pause time.Duration)
}

// retry makes attempts until one succeeds or must not be repeated. It passes the error of the attempt before to step;
// nil: it is the first. It returns the last error of step, also if ctx ends in a pause.
func (t tries) retry(ctx context.Context, step func(last error) (again bool, err error)) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: t.first, Multiplier: 2, MaxInterval: time.Hour}
	if t.longest > 0 {
		pauses.MaxInterval = t.longest
	}
	var last error
	_, _ = backoff.Retry(ctx, func() (none struct{}, err error) {
		var again bool
		if again, last = step(last); last != nil && !again {
			return none, backoff.Permanent(last)
		}
		return none, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(t.most), backoff.WithMaxElapsedTime(t.within),
		backoff.WithNotify(t.note))
	return last
}
