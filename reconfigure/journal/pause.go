package journal

import (
	"context"
	"database/sql"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Pause begins a pause: after it returns, no plan begins until Continue. It stores the reason and the caller; a
// second call replaces them.
func (j *Journal) Pause(ctx context.Context, reason, by string) error {
	return j.write(ctx, "pause", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO pause (id, since, caller, reason) VALUES (1, $1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET since = excluded.since, caller = excluded.caller, reason = excluded.reason`,
			time.Now().UnixNano(), text(by), text(reason))
		return err
	})
}

// notPaused returns ErrPaused during a pause. It is called in a transaction that writes, so the answer cannot be out of
// date.
func notPaused(ctx context.Context, tx *sql.Tx) error {
	var paused bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pause)`).Scan(&paused); err != nil {
		return err
	}
	if paused {
		return ErrPaused
	}
	return nil
}

// Continue ends a pause. Without a pause it does nothing.
func (j *Journal) Continue(ctx context.Context) error {
	return j.write(ctx, "continue", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM pause`)
		return err
	})
}

// Paused returns the current pause; false if there is none.
func (j *Journal) Paused(ctx context.Context) (reconfigure.Pause, bool, error) {
	return first(read(ctx, j, "read whether it is paused", scanPause, `SELECT since, caller, reason FROM pause`))
}

func scanPause(row scanner) (reconfigure.Pause, error) {
	var (
		p     reconfigure.Pause
		since int64
	)
	err := row.Scan(&since, &p.By, &p.Reason)
	p.Since = unstamp(since)
	return p, err
}
