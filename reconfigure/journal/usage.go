package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// OpenOnly is a cut-off for Lives and JobRuns that selects only what has not ended.
var OpenOnly = time.Unix(0, math.MaxInt64)

// insertLives writes the lives in events. A life replaces an earlier one of the same instance and plan, except its
// end. A node has one instance at a time: an earlier open life of another instance ends when the new instance is
// made. A life without an instance ends all lives of the node.
func insertLives(ctx context.Context, tx *sql.Tx, events ...reconfigure.Event) error {
	for _, e := range events {
		if e.Life == nil {
			continue
		}
		if err := insertLife(ctx, tx, *e.Life); err != nil {
			return err
		}
	}
	return nil
}

func insertLife(ctx context.Context, tx *sql.Tx, l reconfigure.Life) error {
	if l.Instance == "" {
		_, err := tx.ExecContext(ctx, `UPDATE lives SET removed = $1 WHERE node = $2 AND removed IS NULL AND made <= $3`,
			stamp(l.Removed).UnixNano(), l.Node, stamp(l.Removed).UnixNano())
		return err
	}
	if l.Node == "" || l.Made.IsZero() {
		return errors.New("a life without a node or the time when it was made")
	}
	if l.Continues {
		last, err := scanLife(tx.QueryRowContext(ctx, `SELECT removed, known FROM lives
			WHERE instance = $1 AND removed IS NULL ORDER BY plan DESC LIMIT 1`, l.Instance))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		l = l.After(last)
	}
	made, removed := l.Made.UnixNano(), sql.NullInt64{Int64: l.Removed.UnixNano(), Valid: l.Ended()}
	l.Failed, l.Removed = text(l.Failed), time.Time{} // the column has it
	known, err := json.Marshal(l)
	if err != nil {
		return err
	}
	const end = `UPDATE lives SET removed = $1
		WHERE node = $2 AND removed IS NULL AND made <= $3 AND NOT (instance = $4 AND plan = $5)`
	if _, err := tx.ExecContext(ctx, end, made, l.Node, made, l.Instance, l.Plan); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO lives (instance, plan, node, made, removed, known)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (instance, plan) DO UPDATE SET node = excluded.node, made = excluded.made,
			removed = coalesce(lives.removed, excluded.removed), known = excluded.known`,
		l.Instance, l.Plan, l.Node, made, removed, string(known))
	return err
}

// Lives returns the lives of instances that had not ended by that time, in the order of their creation.
func (j *Journal) Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error) {
	return read(ctx, j, "read the instances", scanLife, `SELECT removed, known FROM lives
		WHERE removed IS NULL OR removed >= $1 ORDER BY made, instance, plan`, since.UnixNano())
}

func scanLife(row scanner) (reconfigure.Life, error) {
	var (
		l       reconfigure.Life
		removed sql.NullInt64
		known   string
	)
	if err := row.Scan(&removed, &known); err != nil {
		return l, err
	}
	if err := json.Unmarshal([]byte(known), &l); err != nil {
		return l, fmt.Errorf("a life: %w", err)
	}
	if removed.Valid {
		l.Removed = unstamp(removed.Int64)
	}
	return l, nil
}

// KeepJobRuns writes runs of jobs, all or none, and the position in Slurm's list of ended jobs. A run replaces the
// earlier record of it, but an ended run stays ended. Any process may call it; it does not wake up the holder of the
// lease.
func (j *Journal) KeepJobRuns(ctx context.Context, position int64, runs ...reconfigure.JobRun) error {
	return j.transact(ctx, "keep jobs", func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO job_runs (job, submitted, ended, kept, known)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (job, submitted) DO UPDATE SET ended = excluded.ended, kept = excluded.kept,
				known = excluded.known WHERE job_runs.ended IS NULL OR excluded.ended IS NOT NULL`)
		if err != nil {
			return err
		}
		defer insert.Close()
		now := time.Now().UnixNano()
		for _, r := range runs {
			ended := sql.NullInt64{Int64: r.Ended.UnixNano(), Valid: !r.Ended.IsZero()}
			known, err := json.Marshal(r)
			if err != nil {
				return err
			}
			_, err = insert.ExecContext(ctx, r.ID, r.Submitted.UnixNano(), ended, now, string(known))
			if err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE job_log SET position = $1`, position)
		return err
	})
}

// JobPosition returns the position in Slurm's list of ended jobs; 0 at first.
func (j *Journal) JobPosition(ctx context.Context) (position int64, err error) {
	err = j.db.QueryRowContext(ctx, `SELECT position FROM job_log`).Scan(&position)
	return position, j.explain("read how far the ended jobs were read", err)
}

// JobRuns returns the runs of these jobs, or of all jobs, that had not ended by that time, sorted by number, then by
// submission.
func (j *Journal) JobRuns(ctx context.Context, since time.Time, jobs ...int64) ([]reconfigure.JobRun, error) {
	const all = `SELECT known FROM job_runs WHERE (ended IS NULL OR ended >= $1)`
	if len(jobs) == 0 {
		return read(ctx, j, "read jobs", scanJobRun, all+` ORDER BY job, submitted`, since.UnixNano())
	}
	return read(ctx, j, "read jobs", scanJobRun, all+` AND job IN `+j.numbers("$2")+` ORDER BY job, submitted`,
		since.UnixNano(), list(jobs))
}

// RequestsFor returns the requests, oldest first, that name one of these jobs.
func (j *Journal) RequestsFor(ctx context.Context, jobs ...int64) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the requests for jobs", scanRequest, `SELECT `+requestColumns+` FROM requests
		WHERE id IN (SELECT request FROM job_requests WHERE job IN `+j.numbers("$1")+`) ORDER BY id`, list(jobs))
}

// insertJobs records the jobs that a request names.
func (j *Journal) insertJobs(ctx context.Context, tx *sql.Tx, r reconfigure.Request) error {
	if len(r.Jobs) == 0 {
		return nil
	}
	ids := make([]int64, len(r.Jobs))
	for i, job := range r.Jobs {
		ids[i] = job.ID
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO job_requests (job, request)
		SELECT DISTINCT CAST(value AS bigint), CAST($1 AS bigint) FROM `+j.store.elements()+`($2)`, r.ID, list(ids))
	return err
}

// numbers returns the SQL for the rows of an argument of list.
func (j *Journal) numbers(argument string) string {
	return `(SELECT CAST(value AS bigint) FROM ` + j.store.elements() + `(` + argument + `))`
}

// list returns numbers as a JSON array of strings, the form of store.elements.
func list[T ~int64](numbers []T) string {
	var b []byte
	for _, n := range numbers {
		b = fmt.Appendf(b, `,"%d"`, n)
	}
	return "[" + string(b[min(len(b), 1):]) + "]"
}

func scanJobRun(row scanner) (reconfigure.JobRun, error) {
	var (
		r     reconfigure.JobRun
		known string
	)
	if err := row.Scan(&known); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(known), &r); err != nil {
		return r, fmt.Errorf("a job: %w", err)
	}
	return r, nil
}
