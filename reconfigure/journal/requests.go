package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const requestColumns = `id, mode, nodes, reason, caller, jobs, submitted, options, progress, touched IS NOT NULL`

// Submit writes a request and returns it with its new ID, and with the current time if it has none. A request without
// a mode, or whose nodes are not a hostlist, is an error that a retry does not fix.
func (j *Journal) Submit(ctx context.Context, r reconfigure.Request) (submitted reconfigure.Request, err error) {
	err = j.write(ctx, "submit", func(tx *sql.Tx) (err error) {
		submitted, err = j.insertRequest(ctx, tx, r)
		return err
	})
	if err != nil {
		return reconfigure.Request{}, err
	}
	return submitted, nil
}

// insertRequest writes a request, and returns it as it is written.
func (j *Journal) insertRequest(ctx context.Context, tx *sql.Tx, r reconfigure.Request) (reconfigure.Request, error) {
	r.Submitted, r.Reason, r.Caller = stamp(r.Submitted), text(r.Reason), text(r.Caller)
	jobs, err := json.Marshal(r.Jobs)
	if err != nil {
		return r, err
	}
	options, err := json.Marshal(r.Options)
	if err != nil {
		return r, err
	}
	// A request that cannot be read would make Pending fail for all requests.
	if err := decode(new(reconfigure.Request), r.Nodes.String(), string(jobs), string(options)); err != nil {
		return r, err
	}
	err = tx.QueryRowContext(ctx,
		`INSERT INTO requests (mode, nodes, reason, caller, jobs, submitted, options)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		r.Mode, r.Nodes.String(), r.Reason, r.Caller, string(jobs), r.Submitted.UnixNano(),
		string(options)).Scan(&r.ID)
	if err != nil {
		return r, err
	}
	return r, j.insertJobs(ctx, tx, r)
}

// Pending returns the requests without an outcome, oldest first, including those for which operations were started,
// so that no request of a dead worker is lost.
func (j *Journal) Pending(ctx context.Context) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the pending requests", scanRequest,
		`SELECT `+requestColumns+` FROM requests WHERE finished IS NULL ORDER BY id`)
}

// Requests returns at most limit requests, newest first.
func (j *Journal) Requests(ctx context.Context, limit int) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the requests", scanRequest,
		`SELECT `+requestColumns+` FROM requests ORDER BY id DESC LIMIT $1`, max(limit, 0))
}

// Request returns a request; false if there is none with that ID.
func (j *Journal) Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return first(read(ctx, j, "read a request", scanRequest,
		`SELECT `+requestColumns+` FROM requests WHERE id = $1`, id))
}

// Begin begins a plan and returns its number. It MUST return before the operations of the plan start, and ids MUST be
// the requests for which they start, at least one: these are touched from here on. The requests in undone, which the
// plan makes unnecessary, get these outcomes in the same transaction, and the plan gets an event for each.
//
// It writes nothing if a request already has its outcome (ErrFinished), if a request in undone is touched (ErrBegun),
// and during a pause (ErrPaused): no plan begins after Pause has returned. Only the holder of the lease may call it
// (ErrLeaseLost).
func (j *Journal) Begin(
	ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome,
) (plan int64, err error) {
	err = j.writeHeld(ctx, "begin a plan", func(tx *sql.Tx) error {
		if len(ids) == 0 {
			return errors.New("it is for no request")
		}
		if err := notPaused(ctx, tx); err != nil {
			return err
		}
		now := time.Now().UnixNano()
		const insert = `INSERT INTO plans (begun) VALUES ($1) RETURNING id`
		if err := tx.QueryRowContext(ctx, insert, now).Scan(&plan); err != nil {
			return err
		}
		for _, id := range ids {
			if err := touch(ctx, tx, id, plan); err != nil {
				return err
			}
		}
		for _, o := range undone {
			if err := undo(ctx, tx, o, plan); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return plan, nil
}

// touch adds a request to a plan. From here on something may have been done for it.
func touch(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, plan int64) error {
	const put = `UPDATE requests SET touched = coalesce(touched, $1) WHERE id = $2 AND finished IS NULL`
	if err := one(ctx, tx, id, put, plan, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO plan_requests (plan, request) VALUES ($1, $2)`, plan, id)
	return err
}

// undo writes the outcome of a request that is not touched, and an event of the plan.
func undo(ctx context.Context, tx *sql.Tx, o reconfigure.Outcome, plan int64) error {
	if err := cancelIn(ctx, tx, o.Request, o.Error); err != nil {
		return err
	}
	message := fmt.Sprintf("request %s was cancelled: %s", o.Request, o.Error)
	return insertEvents(ctx, tx, reconfigure.Event{
		Plan: plan, Phase: reconfigure.PhasePlan, Level: reconfigure.Note, Message: message,
	})
}

// Finish writes the outcomes of requests, all or none. An outcome without a time gets the current time. A request has
// one outcome: a second one is ErrFinished, and the first one stays. Only the holder of the lease may call it
// (ErrLeaseLost).
func (j *Journal) Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	const finish = `UPDATE requests SET finished = $1, code = $2, error = $3, verdicts = $4
		WHERE id = $5 AND finished IS NULL`
	return j.writeHeld(ctx, "finish", func(tx *sql.Tx) error {
		for _, o := range outcomes {
			verdicts, err := json.Marshal(o.Verdicts)
			if err != nil {
				return err
			}
			finished := stamp(o.Finished).UnixNano()
			err = one(ctx, tx, o.Request, finish, finished, o.Code, text(o.Error), string(verdicts), o.Request)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Defer replaces the deferrals and the known verdicts of pending requests, all or none. The requests stay pending. A
// request that has its outcome is ErrFinished. Only the holder of the lease may call it (ErrLeaseLost).
func (j *Journal) Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	return j.writeHeld(ctx, "defer", func(tx *sql.Tx) error {
		for _, o := range outcomes {
			progress, err := encodeProgress(o)
			if err != nil {
				return err
			}
			const put = `UPDATE requests SET progress = $1 WHERE id = $2 AND finished IS NULL`
			if err := one(ctx, tx, o.Request, put, progress, o.Request); err != nil {
				return err
			}
		}
		return nil
	})
}

// Outcome returns the outcome of a request; false if it is pending, or if there is none with that ID.
func (j *Journal) Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error) {
	return first(read(ctx, j, "read an outcome", scanOutcome,
		`SELECT id, code, error, verdicts, finished FROM requests WHERE id = $1 AND finished IS NOT NULL`, id))
}

// Cancel cancels a request for which nothing has been done, deferred or not: it gets an outcome of CodeCancelled. A
// request that a plan has touched is ErrBegun; one that has its outcome is ErrFinished.
func (j *Journal) Cancel(ctx context.Context, id reconfigure.RequestID) error {
	return j.write(ctx, "cancel", func(tx *sql.Tx) error {
		return cancelIn(ctx, tx, id, "it had not begun yet")
	})
}

func cancelIn(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, why string) error {
	const isTouched = `SELECT EXISTS (
		SELECT 1 FROM requests WHERE id = $1 AND finished IS NULL AND touched IS NOT NULL)`
	var touched bool
	if err := tx.QueryRowContext(ctx, isTouched, id).Scan(&touched); err != nil {
		return err
	}
	if touched {
		return fmt.Errorf("request %s: %w", id, ErrBegun)
	}
	return one(ctx, tx, id,
		`UPDATE requests SET finished = $1, code = $2, error = $3, verdicts = '[]' WHERE id = $4 AND finished IS NULL`,
		time.Now().UnixNano(), reconfigure.CodeCancelled, text(why), id)
}

// one runs a statement that changes one request without an outcome. If it changes none, the error says why.
func one(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, statement string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err != nil || rows == 1 {
		return err
	}
	var exists bool
	const exist = `SELECT EXISTS (SELECT 1 FROM requests WHERE id = $1)`
	if err := tx.QueryRowContext(ctx, exist, id).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return unknown(id)
	}
	return fmt.Errorf("request %s: %w", id, ErrFinished)
}

func scanRequest(row scanner) (reconfigure.Request, error) {
	var (
		r                    reconfigure.Request
		nodes, jobs, options string
		submitted            int64
		progress             sql.NullString
	)
	err := row.Scan(&r.ID, &r.Mode, &nodes, &r.Reason, &r.Caller, &jobs, &submitted, &options, &progress,
		&r.Touched)
	if err != nil {
		return r, err
	}
	r.Submitted = unstamp(submitted)
	if err := decode(&r, nodes, jobs, options); err != nil {
		return r, fmt.Errorf("request %s: %w", r.ID, err)
	}
	if progress.Valid {
		if err := decodeProgress(&r, progress.String); err != nil {
			return r, fmt.Errorf("request %s: %w", r.ID, err)
		}
	}
	return r, nil
}

// decode reads those parts of a request that the journal has as text.
func decode(r *reconfigure.Request, nodes, jobs, options string) error {
	if err := r.Nodes.UnmarshalText([]byte(nodes)); err != nil {
		return fmt.Errorf("its nodes: %w", err)
	}
	if err := json.Unmarshal([]byte(jobs), &r.Jobs); err != nil {
		return fmt.Errorf("its jobs: %w", err)
	}
	if err := json.Unmarshal([]byte(options), &r.Options); err != nil {
		return fmt.Errorf("its options: %w", err)
	}
	return nil
}

func scanOutcome(row scanner) (reconfigure.Outcome, error) {
	var (
		o        reconfigure.Outcome
		verdicts string
		finished int64
	)
	if err := row.Scan(&o.Request, &o.Code, &o.Error, &verdicts, &finished); err != nil {
		return o, err
	}
	o.Finished = unstamp(finished)
	if err := json.Unmarshal([]byte(verdicts), &o.Verdicts); err != nil {
		return o, fmt.Errorf("verdicts of request %s: %w", o.Request, err)
	}
	return o, nil
}
