package ssh

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// enduring is a Keeper that is asked again for a minute where it fails: a journal that is busy, or starts up, says nothing of the instances, which would be removed.
type enduring struct{ Keeper }

func (e enduring) HostKeys(ctx context.Context) (map[string][]string, error) {
	return patiently(ctx, func() (map[string][]string, error) { return e.Keeper.HostKeys(ctx) })
}

func (e enduring) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	_, err := patiently(ctx, func() (struct{}, error) { return struct{}{}, e.Keeper.KeepHostKeys(ctx, keys) })
	return err
}

// patiently tries again and again. Who leads no more is to stop at once.
func patiently[T any](ctx context.Context, do func() (T, error)) (T, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 100*time.Millisecond, 5*time.Second
	return backoff.Retry(ctx, func() (T, error) {
		got, err := do()
		if errors.Is(err, reconfigure.ErrLeaseLost) {
			err = backoff.Permanent(err)
		}
		return got, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(time.Minute))
}
