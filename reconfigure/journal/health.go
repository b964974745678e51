package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Health returns the health of the node groups that have failures, by name.
func (j *Journal) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	all, err := read(ctx, j, "read the health of the node groups", scanHealth, `SELECT node_group, known FROM health`)
	if err != nil {
		return nil, err
	}
	byGroup := map[string]reconfigure.Health{}
	for _, h := range all {
		byGroup[h.Group] = h
	}
	return byGroup, nil
}

// UpdateHealth replaces a group's health by the result of update, in one transaction. The group's name stays. Only
// the holder of the lease may call it (ErrLeaseLost), or a process that acquired no lease, such as an administrator's
// call that resets a group.
func (j *Journal) UpdateHealth(
	ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health,
) error {
	return j.writeHeld(ctx, "update the health of a node group", func(tx *sql.Tx) error {
		before, err := healthOf(ctx, tx, group)
		if err != nil {
			return err
		}
		after := update(before)
		after.Group = group
		switch {
		case after == before:
			return nil
		case after.Well():
			_, err = tx.ExecContext(ctx, `DELETE FROM health WHERE node_group = $1`, group)
			return err
		}
		known, err := json.Marshal(after)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO health (node_group, known) VALUES ($1, $2)
			ON CONFLICT (node_group) DO UPDATE SET known = excluded.known`, group, string(known))
		return err
	})
}

func healthOf(ctx context.Context, tx *sql.Tx, group string) (reconfigure.Health, error) {
	h, err := scanHealth(tx.QueryRowContext(ctx, `SELECT node_group, known FROM health WHERE node_group = $1`, group))
	if errors.Is(err, sql.ErrNoRows) {
		return reconfigure.Health{Group: group}, nil
	}
	return h, err
}

func scanHealth(row scanner) (reconfigure.Health, error) {
	var (
		h            reconfigure.Health
		group, known string
	)
	if err := row.Scan(&group, &known); err != nil {
		return h, err
	}
	if err := json.Unmarshal([]byte(known), &h); err != nil {
		return h, fmt.Errorf("health of node group %s: %w", group, err)
	}
	h.Group = group
	return h, nil
}
