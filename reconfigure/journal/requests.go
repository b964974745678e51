package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const requestColumns = `id, mode, nodes, reason, caller, jobs, submitted, options, settled, touched IS NOT NULL,
	(SELECT begun FROM batches WHERE batches.id > requests.newest_batch ORDER BY batches.id LIMIT 1)`

// Submit writes a request down and gives it its ID, and the time where it has none. An ID that it had is of no account.
func (j *Journal) Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error) {
	r.Submitted, r.Reason, r.Caller = stamp(r.Submitted), text(r.Reason), text(r.Caller)
	jobs, err := json.Marshal(r.Jobs)
	if err != nil {
		return reconfigure.Request{}, j.explain("submit", err)
	}
	options, err := json.Marshal(r.Options)
	if err != nil {
		return reconfigure.Request{}, j.explain("submit", err)
	}
	// What cannot be read again would keep every request that waits from being read.
	if err := decode(new(reconfigure.Request), r.Nodes.String(), string(jobs), string(options)); err != nil {
		return reconfigure.Request{}, j.explain("submit", err)
	}
	err = j.write(ctx, "submit", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx,
			`INSERT INTO requests (mode, nodes, reason, caller, jobs, submitted, options, newest_batch)
				VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT coalesce(max(id), 0) FROM batches)) RETURNING id`,
			r.Mode, r.Nodes.String(), r.Reason, r.Caller, string(jobs), r.Submitted.UnixNano(), string(options)).Scan(&r.ID)
	})
	if err != nil {
		return reconfigure.Request{}, err
	}
	return r, nil
}

// Pending is the requests without an outcome, oldest first, those that a batch carries already among them: what a worker that died left is not lost.
func (j *Journal) Pending(ctx context.Context) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the requests that wait", scanRequest,
		`SELECT `+requestColumns+` FROM requests WHERE finished IS NULL ORDER BY id`)
}

// Requests is at most limit requests, newest first.
func (j *Journal) Requests(ctx context.Context, limit int) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the requests", scanRequest,
		`SELECT `+requestColumns+` FROM requests ORDER BY id DESC LIMIT $1`, max(limit, 0))
}

// Request finds a request; false where there is none of that ID.
func (j *Journal) Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return first(read(ctx, j, "read a request", scanRequest, `SELECT `+requestColumns+` FROM requests WHERE id = $1`, id))
}

// Begin opens a batch that carries the requests, at least one, none of which has its outcome (else ErrFinished), and gives its number. Those that the batch undoes
// get their outcomes with it, and the batch a note of each; they must not have begun (else ErrBegun). During a pause nothing begins (ErrPaused): nothing does any
// more when Pause has returned.
func (j *Journal) Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (batch int64, err error) {
	err = j.writeLeading(ctx, "begin a batch", func(tx *sql.Tx) error {
		if len(ids) == 0 {
			return errors.New("it would carry no request")
		}
		if err := notPaused(ctx, tx); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `INSERT INTO batches (begun) VALUES ($1) RETURNING id`, time.Now().UnixNano()).Scan(&batch); err != nil {
			return err
		}
		for _, id := range ids {
			if err := carry(ctx, tx, id, batch); err != nil {
				return err
			}
		}
		for _, o := range undone {
			if err := undo(ctx, tx, o, batch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return batch, nil
}

// carry has a batch carry a request. From here on something may have been done for it.
func carry(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, batch int64) error {
	err := one(ctx, tx, id, `INSERT INTO carried (request, batch) SELECT id, $1 FROM requests WHERE id = $2 AND finished IS NULL`, batch, id)
	if err != nil {
		return err
	}
	return one(ctx, tx, id, `UPDATE requests SET touched = coalesce(touched, $1) WHERE id = $2 AND finished IS NULL`, batch, id)
}

// undo gives a request that has not begun its outcome, and tells of it those whom the batch carries.
func undo(ctx context.Context, tx *sql.Tx, o reconfigure.Outcome, batch int64) error {
	if err := takeBack(ctx, tx, o.Request, o.Error); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO events (time, batch, node, phase, level, message) VALUES ($1, $2, '', $3, $4, $5)`,
		time.Now().UnixNano(), batch, reconfigure.PhasePlan, reconfigure.Note, text(fmt.Sprintf("request %s is cancelled: %s", o.Request, o.Error)))
	return err
}

// Finish writes down what became of a request, at the time of now where it has none. A request has one outcome: a second one is ErrFinished, and the first
// one stays.
func (j *Journal) Finish(ctx context.Context, o reconfigure.Outcome) error {
	verdicts, err := json.Marshal(o.Verdicts)
	if err != nil {
		return j.explain("finish", err)
	}
	return j.writeLeading(ctx, "finish", func(tx *sql.Tx) error {
		return one(ctx, tx, o.Request, `UPDATE requests SET finished = $1, code = $2, error = $3, verdicts = $4 WHERE id = $5 AND finished IS NULL`,
			stamp(o.Finished).UnixNano(), o.Code, text(o.Error), string(verdicts), o.Request)
	})
}

// Hold notes what a request waits for, and the verdicts that there are on those of its nodes that do not. It stays pending, now as one that is held. It may be
// called again, and what it notes takes the place of what it noted before; after the outcome it is ErrFinished. Of one that could not be planned it is known that
// its newest batch has done nothing for it.
func (j *Journal) Hold(ctx context.Context, o reconfigure.Outcome) error {
	settled, err := encodeHold(o)
	if err != nil {
		return j.explain("hold", err)
	}
	const untouched = `CASE WHEN touched = (SELECT max(batch) FROM carried WHERE request = id) THEN NULL ELSE touched END`
	touched := `touched`
	if slices.ContainsFunc(o.Deferred, func(w reconfigure.Deferral) bool { return w.Node == "" }) {
		touched = untouched
	}
	return j.writeLeading(ctx, "hold", func(tx *sql.Tx) error {
		return one(ctx, tx, o.Request, `UPDATE requests SET settled = $1, touched = `+touched+` WHERE id = $2 AND finished IS NULL`, settled, o.Request)
	})
}

// Outcome is what became of a request; false where it is still under way, and where there is none of that ID.
func (j *Journal) Outcome(ctx context.Context, id reconfigure.RequestID) (reconfigure.Outcome, bool, error) {
	return first(read(ctx, j, "read an outcome", scanOutcome,
		`SELECT id, code, error, verdicts, finished FROM requests WHERE id = $1 AND finished IS NOT NULL`, id))
}

// Cancel takes back a request for which nothing has been done: it gets an outcome of CodeCancelled. That may be one that is held since it could not be planned. One
// for which a batch may have done something is ErrBegun, also while it is held; one that has its outcome is ErrFinished.
func (j *Journal) Cancel(ctx context.Context, id reconfigure.RequestID) error {
	return j.write(ctx, "cancel", func(tx *sql.Tx) error {
		return takeBack(ctx, tx, id, "it was taken back before anything was done for it")
	})
}

func takeBack(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, why string) error {
	var begun bool
	const touched = `SELECT EXISTS (SELECT 1 FROM requests WHERE id = $1 AND finished IS NULL AND touched IS NOT NULL)`
	if err := tx.QueryRowContext(ctx, touched, id).Scan(&begun); err != nil {
		return err
	}
	if begun {
		return fmt.Errorf("request %s: %w", id, ErrBegun)
	}
	return one(ctx, tx, id, `UPDATE requests SET finished = $1, code = $2, error = $3, verdicts = '[]' WHERE id = $4 AND finished IS NULL`,
		time.Now().UnixNano(), reconfigure.CodeCancelled, text(why), id)
}

// one runs a statement that concerns one request without an outcome, and says why where there is none.
func one(ctx context.Context, tx *sql.Tx, id reconfigure.RequestID, statement string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err != nil || rows == 1 {
		return err
	}
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM requests WHERE id = $1)`, id).Scan(&there); err != nil {
		return err
	}
	if !there {
		return unknown(id)
	}
	return fmt.Errorf("request %s: %w", id, ErrFinished)
}

func scanRequest(row scanner) (reconfigure.Request, error) {
	var (
		r                    reconfigure.Request
		nodes, jobs, options string
		submitted            int64
		settled              sql.NullString
		passed               sql.NullInt64
	)
	if err := row.Scan(&r.ID, &r.Mode, &nodes, &r.Reason, &r.Caller, &jobs, &submitted, &options, &settled, &r.Touched, &passed); err != nil {
		return r, err
	}
	r.Submitted = unstamp(submitted)
	if passed.Valid {
		r.Passed = unstamp(passed.Int64)
	}
	if err := decode(&r, nodes, jobs, options); err != nil {
		return r, fmt.Errorf("request %s: %w", r.ID, err)
	}
	if settled.Valid {
		if err := decodeHold(&r, settled.String); err != nil {
			return r, fmt.Errorf("request %s: %w", r.ID, err)
		}
	}
	return r, nil
}

// decode reads those parts of a request that are kept as text.
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
