package journal

import (
	"context"
	"database/sql"
	"time"
)

// pruneAtOnce is the maximum number of rows that one transaction deletes, small enough that other processes wait only
// briefly.
const pruneAtOnce = 5000

// Prune deletes the requests whose outcome is older than before, with the plans, events and evidence that belong to
// no other request. It also deletes the lives of instances and the runs of jobs that ended before, and runs that
// Slurm last listed before. It never deletes a request without an outcome, nor its plans, events and evidence. A node
// whose events are all deleted has no entry in LastMoves afterwards.
//
// It deletes in several transactions, and may be interrupted at any point and called again. A SQLite file does not
// shrink; its free space is used again.
func (j *Journal) Prune(ctx context.Context, before time.Time) error {
	const (
		oldRequests = `SELECT id FROM requests WHERE finished < $1`
		oldPlans    = `SELECT p.id FROM plans p WHERE NOT EXISTS (
			SELECT 1 FROM plan_requests c JOIN requests r ON r.id = c.request
			WHERE c.plan = p.id AND (r.finished IS NULL OR r.finished >= $1))`
		some = ` LIMIT $2`
	)
	// Rows are deleted before the rows that they refer to. The old requests themselves are deleted last, since the
	// other statements look for them.
	for _, step := range []string{
		`DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.plan IN (` + oldPlans + `)` + some + `)`,
		`DELETE FROM evidence WHERE id IN (SELECT e.id FROM evidence e WHERE e.plan IN (` + oldPlans + `)` + some + `)`,
		`DELETE FROM plan_requests WHERE (request, plan) IN (
			SELECT request, plan FROM plan_requests WHERE request IN (` + oldRequests + `)` + some + `)`,
		`DELETE FROM plans WHERE id IN (` + oldPlans + some + `)`,
		`DELETE FROM job_requests WHERE (job, request) IN (
			SELECT job, request FROM job_requests WHERE request IN (` + oldRequests + `)` + some + `)`,
		`DELETE FROM lives WHERE (instance, plan) IN (SELECT instance, plan FROM lives WHERE removed < $1` + some + `)`,
		`DELETE FROM job_runs WHERE (job, submitted) IN (
			SELECT job, submitted FROM job_runs WHERE coalesce(ended, kept) < $1` + some + `)`,
		`DELETE FROM requests WHERE id IN (` + oldRequests + some + `)`,
	} {
		for deleted := int64(pruneAtOnce); deleted == pruneAtOnce; {
			err := j.transact(ctx, "prune", func(tx *sql.Tx) error {
				result, err := tx.ExecContext(ctx, step, before.UnixNano(), pruneAtOnce)
				if err != nil {
					return err
				}
				deleted, err = result.RowsAffected()
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
