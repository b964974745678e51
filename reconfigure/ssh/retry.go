package ssh

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// retrying is a Keeper whose calls are retried for a minute if they fail: a busy or starting journal is not a fault
// of the instances. A lost lease is not retried.
type retrying struct{ Keeper }

func (r retrying) HostKeys(ctx context.Context) (map[string][]string, error) {
	return retry(ctx, func() (map[string][]string, error) { return r.Keeper.HostKeys(ctx) })
}

func (r retrying) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	_, err := retry(ctx, func() (struct{}, error) { return struct{}{}, r.Keeper.KeepHostKeys(ctx, keys) })
	return err
}

func retry[T any](ctx context.Context, do func() (T, error)) (T, error) {
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
