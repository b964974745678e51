package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Record writes events in their order, all or none. An event without a time gets the current time. Each event belongs
// to a plan that has begun; an unknown plan is an error, and a retry does not fix it. The journal numbers events in the
// order of the commits. It stores their lives separately (Lives); an incomplete life is also an error that a retry does
// not fix. Only the holder of the lease may call it (ErrLeaseLost).
//
// It waits for the disk; Recorder is for callers that must not wait.
func (j *Journal) Record(ctx context.Context, events ...reconfigure.Event) error {
	if len(events) == 0 {
		return nil
	}
	return j.writeHeld(ctx, "record", func(tx *sql.Tx) error {
		if err := insertEvents(ctx, tx, events...); err != nil {
			return err
		}
		return insertLives(ctx, tx, events...)
	})
}

func insertEvents(ctx context.Context, tx *sql.Tx, events ...reconfigure.Event) error {
	insert, err := tx.PrepareContext(ctx,
		`INSERT INTO events (time, plan, node, phase, level, message) VALUES ($1, $2, $3, $4, $5, $6)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, e := range events {
		if e.Life != nil && e.Phase == "" {
			continue
		}
		at := stamp(e.Time).UnixNano()
		if _, err := insert.ExecContext(ctx, at, e.Plan, e.Node, e.Phase, e.Level, text(e.Message)); err != nil {
			return err
		}
	}
	return nil
}

// Events returns the events of a request with higher IDs than after (0: all), in order: the events of its plans that
// concern one of its nodes or the whole plan; all of them if the request is for the whole cluster.
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
		newer = `SELECT ` + eventColumns + ` FROM events
			WHERE plan IN (SELECT plan FROM plan_requests WHERE request = $1) AND id > $2`
		itsOwn  = ` AND node IN (SELECT '' UNION ALL SELECT value FROM ` + j.store.elements() + `($3))`
		inOrder = ` ORDER BY id`
	)
	if r.Nodes.Empty() {
		return read(ctx, j, doing, scanEvent, newer+inOrder, id, after)
	}
	names, err := json.Marshal(r.Nodes.Names())
	if err != nil {
		return nil, j.explain(doing, err)
	}
	return read(ctx, j, doing, scanEvent, newer+itsOwn+inOrder, id, after, string(names))
}

// EventsOf returns the Events of several requests, by request, and reads each event once. A request without events, or
// that is not in the journal, has no entry.
func (j *Journal) EventsOf(
	ctx context.Context, ids ...reconfigure.RequestID,
) (map[reconfigure.RequestID][]reconfigure.Event, error) {
	const doing = "read the events of requests"
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, j.explain(doing, err)
	}
	asked := `(SELECT CAST(value AS bigint) FROM ` + j.store.elements() + `($1))`
	rows, err := read(ctx, j, doing, scanPlanRequest, `SELECT plan, request, nodes FROM plan_requests
		JOIN requests ON requests.id = request WHERE request IN `+asked, string(list))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	readers, err := readersOf(rows)
	if err != nil {
		return nil, j.explain(doing, err)
	}
	events, err := read(ctx, j, doing, scanEvent, `SELECT `+eventColumns+` FROM events
		WHERE plan IN (SELECT plan FROM plan_requests WHERE request IN `+asked+`) ORDER BY id`, string(list))
	if err != nil {
		return nil, err
	}
	byRequest := map[reconfigure.RequestID][]reconfigure.Event{}
	for _, e := range events {
		for _, id := range readers[e.Plan].of(e.Node) {
			byRequest[id] = append(byRequest[id], e)
		}
	}
	return byRequest, nil
}

// planRequest is a plan, with a request for which it started operations.
type planRequest struct {
	plan    int64
	request reconfigure.RequestID
	nodes   string
}

func scanPlanRequest(row scanner) (planRequest, error) {
	var p planRequest
	return p, row.Scan(&p.plan, &p.request, &p.nodes)
}

// readers are the requests that the events of one plan are for.
type readers struct {
	all    []reconfigure.RequestID            // all requests of the plan; they get the events of the whole plan
	whole  []reconfigure.RequestID            // requests for the whole cluster; they get the events of all nodes
	byNode map[string][]reconfigure.RequestID // requests that name the node
}

func (r *readers) of(node string) []reconfigure.RequestID {
	if node == "" {
		return r.all
	}
	return slices.Concat(r.whole, r.byNode[node])
}

// readersOf returns the readers of each plan.
func readersOf(rows []planRequest) (map[int64]*readers, error) {
	byPlan, requests := map[int64]*readers{}, map[reconfigure.RequestID]reconfigure.Request{}
	for _, row := range rows {
		request, known := requests[row.request]
		if !known {
			if err := request.Nodes.UnmarshalText([]byte(row.nodes)); err != nil {
				return nil, err
			}
			requests[row.request] = request
		}
		plan := byPlan[row.plan]
		if plan == nil {
			plan = &readers{byNode: map[string][]reconfigure.RequestID{}}
			byPlan[row.plan] = plan
		}
		plan.all = append(plan.all, row.request)
		if request.Nodes.Empty() {
			plan.whole = append(plan.whole, row.request)
		}
		for node := range request.Nodes.All() {
			plan.byNode[node] = append(plan.byNode[node], row.request)
		}
	}
	return byPlan, nil
}

// LastMoves returns, by node, the newest event that is not a note: a note after a failure must not hide the failure.
func (j *Journal) LastMoves(ctx context.Context) (map[string]reconfigure.Event, error) {
	// The query walks the index from each name to the next one, and from each node's newest event back over its
	// notes; GROUP BY would read the whole index.
	const newest = `
		WITH RECURSIVE name (node) AS (
			SELECT min(node) FROM events WHERE node > ''
			UNION ALL
			SELECT (SELECT min(node) FROM events WHERE node > name.node) FROM name WHERE name.node IS NOT NULL
		)
		SELECT ` + eventColumns + ` FROM events WHERE id IN (
			SELECT (SELECT id FROM events WHERE node = name.node AND level <> 'note' ORDER BY id DESC LIMIT 1)
			FROM name)`
	events, err := read(ctx, j, "read the last event of each node", scanEvent, newest)
	if err != nil {
		return nil, err
	}
	last := make(map[string]reconfigure.Event, len(events))
	for _, e := range events {
		last[e.Node] = e
	}
	return last, nil
}

const eventColumns = `id, time, plan, node, phase, level, message`

func scanEvent(row scanner) (reconfigure.Event, error) {
	var (
		e    reconfigure.Event
		time int64
	)
	err := row.Scan(&e.ID, &time, &e.Plan, &e.Node, &e.Phase, &e.Level, &e.Message)
	e.Time = unstamp(time)
	return e, err
}
