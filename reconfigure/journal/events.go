package journal

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Record writes events down, in their order, all or none, at the time of now where one has none. Each belongs to a batch that has begun. IDs that they had
// are of no account: the journal numbers them.
func (j *Journal) Record(ctx context.Context, events ...reconfigure.Event) error {
	return j.writeLeading(ctx, "record", func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO events (time, batch, node, phase, level, message) VALUES ($1, $2, $3, $4, $5, $6)`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, e := range events {
			if _, err := insert.ExecContext(ctx, stamp(e.Time).UnixNano(), e.Batch, e.Node, e.Phase, e.Level, text(e.Message)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Events is what happened to a request after the event of that ID (0: from the start), in order: the events of the batches that carried it which concern
// one of its nodes or the whole batch; all of them where it is for the whole cluster.
func (j *Journal) Events(ctx context.Context, id reconfigure.RequestID, after int64) ([]reconfigure.Event, error) {
	const doing = "read the events of a request"
	r, ok, err := j.Request(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, j.explain(doing, unknown(id))
	}
	var (
		since   = `SELECT ` + eventColumns + ` FROM events WHERE batch IN (SELECT batch FROM carried WHERE request = $1) AND id > $2`
		itsOwn  = ` AND node IN (SELECT '' UNION ALL SELECT value FROM ` + j.store.elements() + `($3))`
		inOrder = ` ORDER BY id`
	)
	if r.Nodes.Empty() {
		return read(ctx, j, doing, scanEvent, since+inOrder, id, after)
	}
	names, err := json.Marshal(r.Nodes.Names())
	if err != nil {
		return nil, j.explain(doing, err)
	}
	return read(ctx, j, doing, scanEvent, since+itsOwn+inOrder, id, after, string(names))
}

// LastMoves is the newest event of each node that says how far it is: notes are passed over, since what is noted after a failure must not hide it.
func (j *Journal) LastMoves(ctx context.Context) (map[string]reconfigure.Event, error) {
	// A walk from each name to the next one, and from each node's newest event back over its notes; GROUP BY would read the whole index.
	const newest = `
		WITH RECURSIVE name (node) AS (
			SELECT min(node) FROM events WHERE node > ''
			UNION ALL
			SELECT (SELECT min(node) FROM events WHERE node > name.node) FROM name WHERE name.node IS NOT NULL
		)
		SELECT ` + eventColumns + ` FROM events WHERE id IN (
			SELECT (SELECT id FROM events WHERE node = name.node AND level <> 'note' ORDER BY id DESC LIMIT 1) FROM name)`
	events, err := read(ctx, j, "read how far the nodes are", scanEvent, newest)
	if err != nil {
		return nil, err
	}
	last := make(map[string]reconfigure.Event, len(events))
	for _, e := range events {
		last[e.Node] = e
	}
	return last, nil
}

const eventColumns = `id, time, batch, node, phase, level, message`

func scanEvent(row scanner) (reconfigure.Event, error) {
	var (
		e    reconfigure.Event
		time int64
	)
	err := row.Scan(&e.ID, &time, &e.Batch, &e.Node, &e.Phase, &e.Level, &e.Message)
	e.Time = unstamp(time)
	return e, err
}
