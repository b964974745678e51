package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Keep keeps evidence, all or none, at the time of now where it has none. Each piece belongs to a plan that has
// begun, and is pruned with it. It is the lease holder's to call.
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

// Evidence is what is kept of nodes, oldest first.
func (j *Journal) Evidence(ctx context.Context, nodes nodeset.NodeSet) ([]reconfigure.Evidence, error) {
	const doing = "read the evidence of nodes"
	names, err := json.Marshal(nodes.Names())
	if err != nil {
		return nil, j.explain(doing, err)
	}
	return read(ctx, j, doing, scanEvidence, `SELECT `+evidenceColumns+` FROM evidence
		WHERE node IN (SELECT value FROM `+j.store.elements()+`($1)) ORDER BY id`, string(names))
}

// EvidenceOf is what is kept of a request's nodes by the plans for it, oldest first; of all nodes where the request
// is for the whole cluster.
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
