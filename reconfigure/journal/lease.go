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

// lock is a lock that this process has on the store.
type lock struct {
	alive   context.Context // ends, with ErrLeaseLost, when the lock is lost while the process lives
	release func() error
}

// lease is one that this Journal has acquired. Of two leases, the one of the higher epoch was acquired later.
type lease struct {
	alive context.Context
	epoch int64
}

// Acquire acquires the lease, without waiting; ok is false while another one has it, be it in this process. The lease
// ends with release, or with the process, whatever ends that. After ok is false, or after an error, it may be called
// again.
//
// On PostgreSQL the lease ends with its connection too. From then on all that only the holder may write is
// ErrLeaseLost for this Journal, until release; release is ErrLeaseLost as well. WhileHeld gives a context that ends
// at once.
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

// since stands before the time in the description of a holder.
const since = " since "

// nextEpoch begins a new epoch, and describes its holder.
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

// WhileHeld is ctx, cancelled with the cause ErrLeaseLost as soon as this Journal is found to have lost the lease,
// and at once where it has none. Where the connection fails that takes 8 seconds at most, and the database gives the
// lease to nobody else before. What the holder does to the world belongs under this context.
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

// writeHeld is write for what only the holder of the lease may write. A holder that was taken for dead, and has a
// successor, would otherwise write into what the successor does: the successor's epoch began in a transaction, and
// every other one is either before that or after it. A Journal that acquired no lease is trusted to be alone.
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

// Holder is who has the lease, for people: "process 4711 on control since 2026-01-31T08:00:00Z"; empty where nobody
// has it, or where that cannot be read. It may be out of date when it is returned: only Acquire is certain.
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

// HolderSince is the Holder, and since when, to the second, by the clock of its host, which is also the clock of the
// events that it records. The time is zero where nobody has the lease.
func (j *Journal) HolderSince(ctx context.Context) (holder string, acquired time.Time) {
	holder = j.Holder(ctx)
	_, text, _ := strings.Cut(holder, since)
	acquired, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return holder, time.Time{}
	}
	return holder, acquired
}
