package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// LivesOf returns the lives that a filter selects, by node, then in the order of their creation.
func (j *Journal) LivesOf(ctx context.Context, f reconfigure.LifeFilter) ([]reconfigure.Life, error) {
	const doing = "read the instances of a time"
	where, args := []string{`made <= $1`, `(removed IS NULL OR removed >= $2)`},
		[]any{f.Until.UnixNano(), f.Since.UnixNano()}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if len(f.Nodes) > 0 {
		names, err := json.Marshal(f.Nodes)
		if err != nil {
			return nil, j.explain(doing, err)
		}
		add(`node IN (SELECT value FROM `+j.store.elements()+`($%d))`, string(names))
	}
	if f.Host != "" {
		add(`known ->> 'host' = $%d`, f.Host)
	}
	if f.Image != "" {
		add(`known ->> 'image' = $%d`, f.Image)
	}
	return read(ctx, j, doing, scanLife, `SELECT removed, known FROM lives WHERE `+strings.Join(where, " AND ")+
		` ORDER BY node, made, instance, plan`, args...)
}

// FailuresOf returns the failures of operations of nodes between two times, in order; without nodes, of all.
func (j *Journal) FailuresOf(
	ctx context.Context, since, until time.Time, nodes ...string,
) ([]reconfigure.Event, error) {
	const (
		doing = "read the failures of a time"
		which = `SELECT ` + eventColumns + ` FROM events
			WHERE level = 'failed' AND node <> '' AND time >= $1 AND time <= $2`
		inOrder = ` ORDER BY id`
	)
	if len(nodes) == 0 {
		return read(ctx, j, doing, scanEvent, which+inOrder, since.UnixNano(), until.UnixNano())
	}
	names, err := json.Marshal(nodes)
	if err != nil {
		return nil, j.explain(doing, err)
	}
	return read(ctx, j, doing, scanEvent, which+` AND node IN (SELECT value FROM `+j.store.elements()+`($3))`+inOrder,
		since.UnixNano(), until.UnixNano(), string(names))
}

// NodesWithLives returns the nodes that had an instance between two times, sorted as texts.
func (j *Journal) NodesWithLives(ctx context.Context, since, until time.Time) ([]string, error) {
	// The query walks the index from each name to the next one. A node has one instance at a time, so that its last life
	// before the end of the period is the last one to end.
	const names = `
		WITH RECURSIVE name (node) AS (
			SELECT min(node) FROM lives
			UNION ALL
			SELECT (SELECT min(node) FROM lives WHERE node > name.node) FROM name WHERE name.node IS NOT NULL
		)
		SELECT node FROM name WHERE node IS NOT NULL AND EXISTS (
			SELECT 1 FROM (
				SELECT removed FROM lives WHERE lives.node = name.node AND made <= $1 ORDER BY made DESC LIMIT 1
			) AS last WHERE removed IS NULL OR removed >= $2)
		ORDER BY node`
	scan := func(s scanner) (name string, err error) { return name, s.Scan(&name) }
	return read(ctx, j, "read the nodes with instances", scan, names, until.UnixNano(), since.UnixNano())
}

// RunsBetween returns the runs of jobs that were submitted before until, and had not ended by since, sorted by number,
// then by submission. It returns none, and false, if there are more than limit.
func (j *Journal) RunsBetween(
	ctx context.Context, since, until time.Time, limit int,
) (runs []reconfigure.JobRun, all bool, err error) {
	const (
		doing = "read the jobs of a time"
		which = ` FROM job_runs WHERE submitted <= $1 AND (ended IS NULL OR ended >= $2)`
	)
	scan := func(s scanner) (n int, err error) { return n, s.Scan(&n) }
	count, _, err := first(read(ctx, j, doing, scan, `SELECT count(*) FROM (SELECT 1`+which+` LIMIT $3) AS found`,
		until.UnixNano(), since.UnixNano(), limit+1))
	if err != nil || count > limit {
		return nil, false, err
	}
	runs, err = read(ctx, j, doing, scanJobRun, `SELECT known`+which+` ORDER BY job, submitted`,
		until.UnixNano(), since.UnixNano())
	return runs, err == nil, err
}

// Pulse returns a text that changes when an event, a request, an outcome, a pause or a campaign is written. It costs
// a few rows.
func (j *Journal) Pulse(ctx context.Context) (string, error) {
	var event, changes, open int64
	err := j.db.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(id), 0) FROM events), (SELECT count FROM changes),
		(SELECT count(*) FROM requests WHERE finished IS NULL)`).Scan(&event, &changes, &open)
	return fmt.Sprintf("%d-%d-%d", event, changes, open), j.explain("look for news", err)
}
