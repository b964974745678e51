package journal

import (
	"context"
	"database/sql"
	"maps"
	"slices"
)

// Sum returns the checksum of a node's last configuration; empty if none is stored.
func (j *Journal) Sum(ctx context.Context, node string) (string, error) {
	scan := func(row scanner) (sum string, err error) {
		err = row.Scan(&sum)
		return sum, err
	}
	sum, _, err := first(read(ctx, j, "read a checksum", scan, `SELECT sum FROM sums WHERE node = $1`, node))
	return sum, err
}

// KeepSums replaces the checksums of these nodes, all or none; an empty one is deleted. Only the holder of the lease
// may call it (ErrLeaseLost).
func (j *Journal) KeepSums(ctx context.Context, sums map[string]string) error {
	return j.writeHeld(ctx, "keep checksums", func(tx *sql.Tx) error {
		for _, node := range slices.Sorted(maps.Keys(sums)) {
			var err error
			if sums[node] == "" {
				_, err = tx.ExecContext(ctx, `DELETE FROM sums WHERE node = $1`, node)
			} else {
				_, err = tx.ExecContext(ctx, `INSERT INTO sums (node, sum) VALUES ($1, $2)
					ON CONFLICT (node) DO UPDATE SET sum = excluded.sum`, node, sums[node])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
