package process

import "context"

// Interruptible calls a function that the end of a context cannot interrupt, for example a read from a terminal or a
// pipe. When the context ends, Interruptible returns, and the function continues until it or the process ends.
func Interruptible[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case r := <-done:
		return r.value, r.err
	}
}
