package journal

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

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
