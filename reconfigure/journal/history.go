package journal

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// RequestsSince returns the requests that had no outcome at that time, oldest first.
func (j *Journal) RequestsSince(ctx context.Context, since time.Time) ([]reconfigure.Request, error) {
	return read(ctx, j, "read the requests since a time", scanRequest, `SELECT `+requestColumns+` FROM requests
		WHERE finished IS NULL OR finished >= $1 ORDER BY id`, since.UnixNano())
}

// OutcomesOf returns the outcomes of requests, by request. A request without an outcome, or that is not in the journal,
// has no entry.
func (j *Journal) OutcomesOf(
	ctx context.Context, ids ...reconfigure.RequestID,
) (map[reconfigure.RequestID]reconfigure.Outcome, error) {
	all, err := read(ctx, j, "read the outcomes of requests", scanOutcome,
		`SELECT id, code, error, verdicts, finished FROM requests
			WHERE id IN `+j.numbers("$1")+` AND finished IS NOT NULL`, list(ids))
	outcomes := make(map[reconfigure.RequestID]reconfigure.Outcome, len(all))
	for _, o := range all {
		outcomes[o.Request] = o
	}
	return outcomes, err
}

// EventsAfter returns the events with higher IDs than after (0: all) that are not older than since, in order, at most
// limit of them.
func (j *Journal) EventsAfter(
	ctx context.Context, after int64, since time.Time, limit int,
) ([]reconfigure.Event, error) {
	return read(ctx, j, "read the events after another", scanEvent, `SELECT `+eventColumns+` FROM events
		WHERE id > $1 AND time >= $2 ORDER BY id LIMIT $3`, after, since.UnixNano(), max(limit, 0))
}

// RequestsOf returns the requests for which plans started operations, by plan, oldest first.
func (j *Journal) RequestsOf(ctx context.Context, plans ...int64) (map[int64][]reconfigure.RequestID, error) {
	type row struct {
		plan    int64
		request reconfigure.RequestID
	}
	scan := func(s scanner) (r row, err error) { return r, s.Scan(&r.plan, &r.request) }
	rows, err := read(ctx, j, "read the requests of plans", scan, `SELECT plan, request FROM plan_requests
		WHERE plan IN `+j.numbers("$1")+` ORDER BY plan, request`, list(plans))
	requests := map[int64][]reconfigure.RequestID{}
	for _, r := range rows {
		requests[r.plan] = append(requests[r.plan], r.request)
	}
	return requests, err
}
