package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// endurance is how long a worker goes on while the journal fails: a database server that is started anew, or gives way to another one, is back in minutes. What
	// lasts longer somebody has to look at; the requests stay where they are, and the next call starts a worker again.
	endurance = 10 * time.Minute
	// calm is how long all must have gone well, where no batch was carried out, until an error is a new trouble. It is longer than any pause between two tries.
	calm = 2 * time.Minute
)

// trouble is a time in which the journal fails.
type trouble struct {
	since  time.Time // zero: it does not fail
	pauses *backoff.ExponentialBackOff
}

func newTrouble() trouble {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval = time.Second, calm/4
	return trouble{pauses: p}
}

// over is called when something has gone well that shows it.
func (t *trouble) over() {
	t.since = time.Time{}
	t.pauses.Reset()
}

// bearable notes that something has failed, and tells whether that has not lasted too long.
func (t *trouble) bearable(now time.Time) bool {
	if t.since.IsZero() {
		t.since = now
	}
	return now.Sub(t.since) < endurance
}

// endure pauses after an error that may pass, and gives it back where the worker is to end, or has tried for long enough.
func (w *worker) endure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if !w.trouble.bearable(time.Now()) {
		return fmt.Errorf("tried again and again for %s, and at last: %w", endurance, err)
	}
	pause := w.trouble.pauses.NextBackOff()
	w.tell(err, pause)
	select {
	case <-ctx.Done():
		return err
	case <-time.After(pause):
		return nil
	}
}
