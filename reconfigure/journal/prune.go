package journal

import (
	"context"
	"database/sql"
	"time"
)

// pruneAtOnce is how many rows one transaction deletes: few enough that a caller who waits for it hardly notices.
const pruneAtOnce = 5000

// Prune deletes the requests that had their outcome before that time, and the batches, events and evidence of which no other request is left. It never touches a
// request without an outcome, nor the batches, events and evidence of one. A node of which every event is that old has no newest event afterwards.
//
// It deletes step by step, and may be ended at any point and called again. The room is used for what comes; a SQLite file does not shrink.
func (j *Journal) Prune(ctx context.Context, before time.Time) error {
	const (
		oldRequests = `SELECT id FROM requests WHERE finished < $1`
		oldBatches  = `SELECT b.id FROM batches b WHERE NOT EXISTS (
			SELECT 1 FROM carried c JOIN requests r ON r.id = c.request WHERE c.batch = b.id AND (r.finished IS NULL OR r.finished >= $1))`
		some = ` LIMIT $2`
	)
	// What refers to a row goes before it. A request is found old again until it goes itself.
	for _, step := range []string{
		`DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.batch IN (` + oldBatches + `)` + some + `)`,
		`DELETE FROM evidence WHERE id IN (SELECT e.id FROM evidence e WHERE e.batch IN (` + oldBatches + `)` + some + `)`,
		`DELETE FROM carried WHERE (request, batch) IN (SELECT request, batch FROM carried WHERE request IN (` + oldRequests + `)` + some + `)`,
		`DELETE FROM batches WHERE id IN (` + oldBatches + some + `)`,
		`DELETE FROM requests WHERE id IN (` + oldRequests + some + `)`,
	} {
		for deleted := int64(pruneAtOnce); deleted == pruneAtOnce; {
			err := j.write(ctx, "prune", func(tx *sql.Tx) error {
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
