package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Keep writes evidence, all or none. Evidence without a time gets the current time. Each piece belongs to a plan that
// has begun, and is pruned with it. Only the holder of the lease may call it (ErrLeaseLost).
func (j *Journal) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	if len(evidence) == 0 {
		return nil
	}
	return j.writeHeld(ctx, "keep evidence", func(tx *sql.Tx) error {
		for _, e := range evidence {
			_, err := tx.ExecContext(ctx,
				`INSERT INTO evidence (time, plan, node, phase, kind, text) VALUES ($1, $2, $3, $4, $5, $6)`,
				stamp(e.Time).UnixNano(), e.Plan, e.Node, e.Phase, e.Kind, text(e.Text))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Evidence returns the evidence of nodes, oldest first.
func (j *Journal) Evidence(ctx context.Context, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error) {
	const doing = "read the evidence of nodes"
	names, err := json.Marshal(nodes.Names())
	if err != nil {
		return nil, j.explain(doing, err)
	}
	return read(ctx, j, doing, scanEvidence, `SELECT `+evidenceColumns+` FROM evidence
		WHERE node IN (SELECT value FROM `+j.store.elements()+`($1)) ORDER BY id`, string(names))
}

// EvidenceOf returns the evidence of a request's nodes from its plans, oldest first; of all nodes if the request is
// for the whole cluster.
func (j *Journal) EvidenceOf(ctx context.Context, r reconfigure.Request) ([]reconfigure.Evidence, error) {
	all, err := read(ctx, j, "read the evidence of a request", scanEvidence, `SELECT `+evidenceColumns+` FROM evidence
		WHERE plan IN (SELECT plan FROM plan_requests WHERE request = $1) ORDER BY id`, r.ID)
	if err != nil || r.Nodes.Empty() {
		return all, err
	}
	return slices.DeleteFunc(all, func(e reconfigure.Evidence) bool { return !r.Nodes.Contains(e.Node) }), nil
}

const evidenceColumns = `time, plan, node, phase, kind, text`

func scanEvidence(row scanner) (reconfigure.Evidence, error) {
	var (
		e    reconfigure.Evidence
		time int64
	)
	err := row.Scan(&time, &e.Plan, &e.Node, &e.Phase, &e.Kind, &e.Text)
	e.Time = unstamp(time)
	return e, err
}
