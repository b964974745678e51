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

// held is a lock that this process has.
type held struct {
	held    context.Context // ends, with ErrLeaseLost, when the lock is lost while the process lives
	release func() error
}

// reign is a lead that this Journal has taken. Of two, the one of the higher epoch was taken later.
type reign struct {
	held  context.Context
	epoch int64
}

// Lead takes the lead, without waiting; ok is false while another one has it, be it in this process. It ends with release, or with the process, whatever
// ends that.
//
// On PostgreSQL it ends with its connection too. From then on Begin, Record, Hold and Finish of this Journal are ErrLeaseLost, until release; release is
// ErrLeaseLost as well. WhileLeading gives a context that tells at once.
func (j *Journal) Lead(ctx context.Context) (release func() error, ok bool, err error) {
	lock, err := j.store.lead(ctx)
	if err != nil || lock == nil {
		return nil, false, j.explain("take the lead", err)
	}
	epoch, err := j.ascend(ctx)
	if err != nil {
		return nil, false, errors.Join(err, lock.release())
	}
	r := &reign{lock.held, epoch}
	j.reign.Store(r)
	return func() error {
		j.reign.CompareAndSwap(r, nil)
		return j.explain("give up the lead", lock.release())
	}, true, nil
}

// leadsSince stands before the time in what is written down of a leader.
const leadsSince = " since "

// ascend writes down who leads, and begins a new epoch.
func (j *Journal) ascend(ctx context.Context) (epoch int64, err error) {
	host, err := os.Hostname()
	if err != nil {
		return 0, j.explain("say who leads", err)
	}
	leader := fmt.Sprintf("process %d on %s%s%s", os.Getpid(), host, leadsSince, time.Now().UTC().Format(time.RFC3339))
	err = j.write(ctx, "say who leads", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `UPDATE lead SET epoch = epoch + 1, leader = $1 RETURNING epoch`, leader).Scan(&epoch)
	})
	return epoch, err
}

// WhileLeading is ctx, cancelled with the cause ErrLeaseLost as soon as this Journal is found to lead no more, and at once where it does not lead. That takes
// seconds at most where the connection fails, and the database hands the lead to nobody else before. What a leader does to the world belongs under it.
func (j *Journal) WhileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := j.reign.Load()
	if r == nil {
		cancel(ErrLeaseLost)
		return ctx, func() {}
	}
	stop := context.AfterFunc(r.held, func() { cancel(ErrLeaseLost) })
	return ctx, func() { stop(); cancel(nil) }
}

// writeLeading is write for what only the leader may write. One that was taken for dead, and followed, would otherwise write into what its successor does:
// the successor's epoch began in a transaction, and each is either before that or after it. A Journal that took no lead is trusted to be alone.
func (j *Journal) writeLeading(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	r := j.reign.Load()
	if r == nil {
		return j.write(ctx, doing, do)
	}
	return j.write(ctx, doing, func(tx *sql.Tx) error {
		var epoch int64
		if err := tx.QueryRowContext(ctx, `SELECT epoch FROM lead`).Scan(&epoch); err != nil {
			return err
		}
		if epoch != r.epoch || r.held.Err() != nil {
			return ErrLeaseLost
		}
		return do(tx)
	})
}

// Watch has this process alone keep an eye on the requests that are held; ok is false while another one does. It ends as the lead does, and hinders nobody.
func (j *Journal) Watch(ctx context.Context) (release func() error, ok bool, err error) {
	lock, err := j.store.watch(ctx)
	if err != nil || lock == nil {
		return nil, false, j.explain("watch", err)
	}
	return func() error {
		if err := lock.release(); !errors.Is(err, ErrLeaseLost) {
			return j.explain("end the watch", err)
		}
		return nil // another one watches, or will: that was all that it was for
	}, true, nil
}

// Leader tells people who leads, "process 4711 on control since 2026-01-31T08:00:00Z"; empty where nobody does, or where it cannot be told. It is old news
// when it is read: to take the lead there is Lead.
func (j *Journal) Leader(ctx context.Context) string {
	if led, err := j.store.led(ctx, j.db); err != nil || !led {
		return ""
	}
	var leader string
	if err := j.db.QueryRowContext(ctx, `SELECT leader FROM lead`).Scan(&leader); err != nil {
		return ""
	}
	return leader
}

// Reign is the Leader, and since when, to the second, by the clock of its host, which is also that of the events that it records.
func (j *Journal) Reign(ctx context.Context) (leader string, since time.Time) {
	leader = j.Leader(ctx)
	_, began, _ := strings.Cut(leader, leadsSince)
	since, err := time.Parse(time.RFC3339, began)
	if err != nil {
		return leader, time.Time{} // nobody leads
	}
	return leader, since
}
