package journal

import (
	"context"
	"database/sql"
	"time"
)

// pruneAtOnce is how many rows one transaction deletes: few enough that a caller who waits for it hardly notices.
const pruneAtOnce = 5000

// Prune deletes the requests that had their outcome before that time, and the plans, events and evidence of which no
// other request is left. It never deletes a request without an outcome, nor the plans, events and evidence of one. A
// node of which every event is that old has no newest event afterwards.
//
// It deletes step by step, and may be interrupted at any point and called again. The space is used for what comes; a
// SQLite file does not shrink.
func (j *Journal) Prune(ctx context.Context, before time.Time) error {
	const (
		oldRequests = `SELECT id FROM requests WHERE finished < $1`
		oldPlans    = `SELECT p.id FROM plans p WHERE NOT EXISTS (
			SELECT 1 FROM plan_requests c JOIN requests r ON r.id = c.request
			WHERE c.plan = p.id AND (r.finished IS NULL OR r.finished >= $1))`
		some = ` LIMIT $2`
	)
	// What refers to a row goes before it. A request is found old again until it is deleted itself.
	for _, step := range []string{
		`DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.plan IN (` + oldPlans + `)` + some + `)`,
		`DELETE FROM evidence WHERE id IN (SELECT e.id FROM evidence e WHERE e.plan IN (` + oldPlans + `)` + some + `)`,
		`DELETE FROM plan_requests WHERE (request, plan) IN (
			SELECT request, plan FROM plan_requests WHERE request IN (` + oldRequests + `)` + some + `)`,
		`DELETE FROM plans WHERE id IN (` + oldPlans + some + `)`,
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
