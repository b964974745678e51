package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Nodes returns the map of nodes; false if none was written yet.
func (j *Journal) Nodes(ctx context.Context) (map[string]reconfigure.Spec, bool, error) {
	return first(read(ctx, j, "read the map of nodes", j.nodes.scan, `SELECT nodes FROM desired`))
}

// knownNodes caches the map of nodes. One run of Terraform reads it many times, and a map of thousands of nodes takes
// long to parse.
type knownNodes struct {
	lock  sync.Mutex
	text  string
	nodes map[string]reconfigure.Spec
}

// scan returns a map that the caller may change. It does not parse an unchanged text again.
func (k *knownNodes) scan(row scanner) (map[string]reconfigure.Spec, error) {
	var text string
	if err := row.Scan(&text); err != nil {
		return nil, err
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.nodes == nil || text != k.text {
		nodes := map[string]reconfigure.Spec{}
		if err := json.Unmarshal([]byte(text), &nodes); err != nil {
			return nil, err
		}
		k.text, k.nodes = text, nodes
	}
	return maps.Clone(k.nodes), nil
}

// KeepNodes replaces the entries of a shard in the map of nodes. The entries of other shards stay, even if they are
// changed at the same time. Only the holder of the lease may call it (ErrLeaseLost).
func (j *Journal) KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error {
	for node, spec := range nodes {
		if spec.Shard != shard {
			err := fmt.Errorf("%s is in shard %q, not in %q", node, spec.Shard, shard)
			return j.explain("keep the map of nodes", err)
		}
	}
	return j.writeHeld(ctx, "keep the map of nodes", func(tx *sql.Tx) error {
		all, err := j.nodes.scan(tx.QueryRowContext(ctx, `SELECT nodes FROM desired`))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			all = map[string]reconfigure.Spec{}
		case err != nil:
			return err
		case maps.Equal(reconfigure.InShard(all, shard), nodes):
			return nil // a run of Terraform keeps the same map several times
		}
		maps.DeleteFunc(all, func(_ string, spec reconfigure.Spec) bool { return spec.Shard == shard })
		for node, spec := range nodes {
			if other, ok := all[node]; ok {
				return fmt.Errorf("%s is already in shard %q, and cannot also be in %q", node, other.Shard, shard)
			}
			all[node] = spec
		}
		text, err := nodesText(all)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO desired (id, nodes) VALUES (1, $1)
			ON CONFLICT (id) DO UPDATE SET nodes = excluded.nodes`, text)
		return err
	})
}

// AdoptNodes writes the map of nodes if there is none yet; else it does nothing.
func (j *Journal) AdoptNodes(ctx context.Context, nodes map[string]reconfigure.Spec) error {
	text, err := nodesText(nodes)
	if err != nil {
		return j.explain("adopt the map of nodes", err)
	}
	return j.write(ctx, "adopt the map of nodes", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO desired (id, nodes) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`,
			text)
		return err
	})
}

func nodesText(nodes map[string]reconfigure.Spec) (string, error) {
	if nodes == nil {
		nodes = map[string]reconfigure.Spec{}
	}
	text, err := json.Marshal(nodes)
	return string(text), err
}

// Identity returns the identity of the cluster in the cloud; the zero value before AdoptIdentity was called.
func (j *Journal) Identity(ctx context.Context) (reconfigure.Identity, error) {
	identity, _, err := first(read(ctx, j, "read the cluster's id", scanIdentity, `SELECT cluster, marked FROM identity`))
	return identity, err
}

func scanIdentity(row scanner) (reconfigure.Identity, error) {
	var (
		identity reconfigure.Identity
		marked   int
	)
	err := row.Scan(&identity.ID, &marked)
	identity.Marked = marked != 0
	return identity, err
}

// AdoptIdentity writes the cluster's id if there is none yet; else it does nothing. The id never changes.
func (j *Journal) AdoptIdentity(ctx context.Context, id string) error {
	return j.write(ctx, "adopt the cluster's id", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO identity (id, cluster, marked) VALUES (1, $1, 0)
			ON CONFLICT (id) DO NOTHING`, id)
		return err
	})
}

// KeepMarked records that all instances that are older than the id now have it (Identity.Marked). Only the holder of
// the lease may call it (ErrLeaseLost).
func (j *Journal) KeepMarked(ctx context.Context) error {
	return j.writeHeld(ctx, "note that the instances have the cluster's id", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE identity SET marked = 1`)
		return err
	})
}

// Declare stores the declaration that a control host uses, and returns the newest one of all control hosts.
func (j *Journal) Declare(ctx context.Context, d reconfigure.Declaration) (newest reconfigure.Declaration, err error) {
	known, ok, err := j.declaration(ctx)
	if err != nil || ok && (d.Sum == known.Sum || d.Outdated(known)) {
		return known, err
	}
	err = j.write(ctx, "note the declaration", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO declaration (id, host, sum, changed) VALUES (1, $1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET host = excluded.host, sum = excluded.sum, changed = excluded.changed
			WHERE declaration.host = excluded.host OR declaration.changed < excluded.changed`,
			text(d.Host), d.Sum, d.Changed.UnixNano())
		return err
	})
	if err != nil {
		return known, err
	}
	newest, _, err = j.declaration(ctx) // another host may have written a newer one
	return newest, err
}

func (j *Journal) declaration(ctx context.Context) (reconfigure.Declaration, bool, error) {
	return first(read(ctx, j, "read the newest declaration", scanDeclaration,
		`SELECT host, sum, changed FROM declaration`))
}

func scanDeclaration(row scanner) (reconfigure.Declaration, error) {
	var (
		d       reconfigure.Declaration
		changed int64
	)
	err := row.Scan(&d.Host, &d.Sum, &changed)
	d.Changed = unstamp(changed)
	return d, err
}

// HostKeys returns the host keys of each address; an empty list if they were deleted.
func (j *Journal) HostKeys(ctx context.Context) (map[string][]string, error) {
	rows, err := read(ctx, j, "read the host keys", scanHostKeys, `SELECT address, keys FROM host_keys`)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]string, len(rows))
	for _, row := range rows {
		all[row.address] = row.keys
	}
	return all, nil
}

type hostKeys struct {
	address string
	keys    []string
}

func scanHostKeys(row scanner) (hostKeys, error) {
	var (
		h    hostKeys
		text string
	)
	if err := row.Scan(&h.address, &text); err != nil {
		return h, err
	}
	if err := json.Unmarshal([]byte(text), &h.keys); err != nil {
		return h, fmt.Errorf("those of %s: %w", h.address, err)
	}
	return h, nil
}

// KeepHostKeys replaces the host keys of these addresses, all or none. Only the holder of the lease may call it
// (ErrLeaseLost).
func (j *Journal) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	return j.writeHeld(ctx, "keep host keys", func(tx *sql.Tx) error {
		return insertHostKeys(ctx, tx, keys, `UPDATE SET keys = excluded.keys`)
	})
}

// AdoptHostKeys writes the host keys of those addresses that have no entry yet.
func (j *Journal) AdoptHostKeys(ctx context.Context, keys map[string][]string) error {
	return j.write(ctx, "adopt host keys", func(tx *sql.Tx) error { return insertHostKeys(ctx, tx, keys, `NOTHING`) })
}

func insertHostKeys(ctx context.Context, tx *sql.Tx, keys map[string][]string, otherwise string) error {
	insert, err := tx.PrepareContext(ctx,
		`INSERT INTO host_keys (address, keys) VALUES ($1, $2) ON CONFLICT (address) DO `+otherwise)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, address := range slices.Sorted(maps.Keys(keys)) {
		text, err := json.Marshal(append([]string{}, keys[address]...))
		if err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, address, string(text)); err != nil {
			return err
		}
	}
	return nil
}
