package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// KeyUses returns the records of the calls of each key, sorted by the key's name.
func (j *Journal) KeyUses(ctx context.Context) ([]reconfigure.KeyUse, error) {
	return read(ctx, j, "read the calls of the keys", scanKeyUse, `SELECT name, known FROM key_uses ORDER BY name`)
}

// UpdateKeyUse replaces the record of a key's calls by the result of update, in one transaction. The key's name
// stays. Update also gets the number of pending requests whose Caller is the key's name and " from ADDRESS". Any
// process may call it; it does not wake up the holder of the lease.
func (j *Journal) UpdateKeyUse(
	ctx context.Context, key string, update func(known reconfigure.KeyUse, pending int) reconfigure.KeyUse,
) error {
	return j.transact(ctx, "update the calls of a key", func(tx *sql.Tx) error {
		before, err := scanKeyUse(tx.QueryRowContext(ctx, `SELECT name, known FROM key_uses WHERE name = $1`, key))
		if errors.Is(err, sql.ErrNoRows) {
			before, err = reconfigure.KeyUse{Key: key}, nil
		}
		if err != nil {
			return err
		}
		var pending int
		prefix := key + " from "
		const its = `SELECT count(*) FROM requests WHERE finished IS NULL AND substr(caller, 1, $1) = $2`
		if err := tx.QueryRowContext(ctx, its, len([]rune(prefix)), prefix).Scan(&pending); err != nil {
			return err
		}
		after := update(before, pending)
		after.Key = key
		if reflect.DeepEqual(after, before) {
			return nil
		}
		known, err := json.Marshal(after)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO key_uses (name, known) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET known = excluded.known`, key, string(known))
		return err
	})
}

func scanKeyUse(row scanner) (reconfigure.KeyUse, error) {
	var (
		u           reconfigure.KeyUse
		name, known string
	)
	if err := row.Scan(&name, &known); err != nil {
		return u, err
	}
	if err := json.Unmarshal([]byte(known), &u); err != nil {
		return u, fmt.Errorf("calls of key %s: %w", name, err)
	}
	u.Key = name
	return u, nil
}
