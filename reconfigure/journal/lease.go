package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// lock is the store's lock for the lease, taken by this process.
type lock struct {
	alive   context.Context // ends with ErrLeaseLost when the lock is lost while the process runs
	release func() error
}

// lease is a lease that this Journal has acquired. The epoch grows with each Acquire by any process.
type lease struct {
	alive context.Context
	epoch int64
}

// Acquire acquires the lease without waiting; ok is false while it is taken, also by this process. The lease ends
// with release, or when the process ends, for any reason. If ok is false, and after an error, Acquire may be retried.
//
// On PostgreSQL the lease also ends with its connection. Then the context of WhileHeld ends, and until release each
// method of this Journal that only the holder may call returns ErrLeaseLost, as does release.
func (j *Journal) Acquire(ctx context.Context) (release func() error, ok bool, err error) {
	const doing = "acquire the lease"
	lock, err := j.store.lock(ctx)
	if err != nil || lock == nil {
		return nil, false, j.explain(doing, err)
	}
	epoch, err := j.nextEpoch(ctx)
	if err != nil {
		return nil, false, errors.Join(err, j.explain(doing, lock.release()))
	}
	l := &lease{lock.alive, epoch}
	j.lease.Store(l)
	return func() error {
		j.lease.CompareAndSwap(l, nil)
		return j.explain("release the lease", lock.release())
	}, true, nil
}

// since precedes the time in the description of a holder.
const since = " since "

// nextEpoch begins a new epoch and stores its holder.
func (j *Journal) nextEpoch(ctx context.Context) (epoch int64, err error) {
	const doing = "note who has the lease"
	host, err := os.Hostname()
	if err != nil {
		return 0, j.explain(doing, err)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	holder := fmt.Sprintf("process %d on %s%s%s", os.Getpid(), host, since, now)
	err = j.write(ctx, doing, func(tx *sql.Tx) error {
		const next = `UPDATE lease SET epoch = epoch + 1, holder = $1 RETURNING epoch`
		return tx.QueryRowContext(ctx, next, holder).Scan(&epoch)
	})
	return epoch, err
}

// WhileHeld returns a context of ctx that is cancelled, with the cause ErrLeaseLost, as soon as this Journal notices
// that it has lost the lease, and at once if it has none. If a connection fails, this takes at most 8 seconds, and
// the database does not give the lease to another process before. Everything that the holder does outside the journal
// must use this context.
func (j *Journal) WhileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := j.lease.Load()
	if l == nil {
		cancel(ErrLeaseLost)
		return ctx, func() {}
	}
	stop := context.AfterFunc(l.alive, func() { cancel(ErrLeaseLost) })
	return ctx, func() { stop(); cancel(nil) }
}

// writeHeld is write, for data that only the holder of the lease may write. It checks the epoch in the same
// transaction, so a holder that has lost the lease cannot write after its successor has begun. A Journal that
// acquired no lease is not checked: its caller must know that it is the only one.
func (j *Journal) writeHeld(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	l := j.lease.Load()
	if l == nil {
		return j.write(ctx, doing, do)
	}
	return j.transact(ctx, doing, func(tx *sql.Tx) error {
		var epoch int64
		if err := tx.QueryRowContext(ctx, `SELECT epoch FROM lease`).Scan(&epoch); err != nil {
			return err
		}
		if epoch != l.epoch || l.alive.Err() != nil {
			return ErrLeaseLost
		}
		return do(tx)
	})
}

// Holder describes the process that has the lease: "process 4711 on control since 2026-01-31T08:00:00Z". It is empty
// if the lease is free or cannot be read. It may be out of date when it is returned: only Acquire is certain.
func (j *Journal) Holder(ctx context.Context) string {
	if locked, err := j.store.locked(ctx, j.db); err != nil || !locked {
		return ""
	}
	var holder string
	if err := j.db.QueryRowContext(ctx, `SELECT holder FROM lease`).Scan(&holder); err != nil {
		return ""
	}
	return holder
}

// HolderSince returns the Holder and the time at which it acquired the lease, in seconds by the clock of its host.
// The events that it records have their times from the same clock. The time is zero if the lease is free.
func (j *Journal) HolderSince(ctx context.Context) (holder string, acquired time.Time) {
	holder = j.Holder(ctx)
	_, text, _ := strings.Cut(holder, since)
	acquired, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return holder, time.Time{}
	}
	return holder, acquired
}
