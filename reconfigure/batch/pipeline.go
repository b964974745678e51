package batch

import (
	"context"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// Engine looks, and carries out what was planned.
type Engine interface {
	Observe(ctx context.Context, scope nodeset.NodeSet) (reconfigure.Observation, error)
	Carry(ctx context.Context, batch int64, seen reconfigure.Observation, p reconfigure.Plan) (map[string]reconfigure.Verdict, error)
}

// Pipeline is the Carrier of the product: open, observe, plan, carry out.
type Pipeline struct {
	// Open reads the declaration and ties an engine for it; it is called for each batch, so that an edit counts from the next batch on.
	Open func(ctx context.Context) (reconfigure.Cluster, Engine, error)
}

// Carry carries out the requests of one batch.
func (p Pipeline) Carry(ctx context.Context, batch int64, requests []reconfigure.Request) []reconfigure.Outcome {
	decided, verdicts, err := p.run(ctx, batch, requests)
	outcomes := make([]reconfigure.Outcome, len(requests))
	for i, r := range requests {
		outcomes[i] = outcome(r, decided, verdicts, err)
	}
	return outcomes
}

func (p Pipeline) run(ctx context.Context, batch int64, requests []reconfigure.Request) (reconfigure.Plan, map[string]reconfigure.Verdict, error) {
	cluster, engine, err := p.Open(ctx)
	if err != nil {
		return reconfigure.Plan{}, nil, err
	}
	var scope nodeset.NodeSet
	for _, r := range requests {
		scope = scope.Union(plan.Scope(cluster, r))
	}
	seen, err := engine.Observe(ctx, scope)
	if err != nil {
		return reconfigure.Plan{}, nil, err
	}
	decided := plan.Compute(cluster, seen, requests)
	verdicts, err := engine.Carry(ctx, batch, seen, decided)
	return decided, verdicts, err
}

// outcome is what one caller gets: a verdict on each node that it named, or, where it named none, on each node that changed for it.
func outcome(r reconfigure.Request, p reconfigure.Plan, verdicts map[string]reconfigure.Verdict, err error) reconfigure.Outcome {
	if err != nil {
		return reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeFailed, Error: err.Error()}
	}
	own := map[string]reconfigure.Verdict{}
	for node := range r.Nodes.All() {
		own[node] = reconfigure.Verdict{Node: node, Status: reconfigure.StatusUnchanged}
	}
	for _, c := range p.Changes {
		if slices.Contains(c.Requests, r.ID) {
			own[c.Node] = verdicts[c.Node]
		}
	}
	for _, rejected := range p.Rejected {
		if rejected.Request == r.ID {
			own[rejected.Node] = reconfigure.Verdict{Node: rejected.Node, Status: reconfigure.StatusRejected, Phase: reconfigure.PhasePlan, Reason: rejected.Reason}
		}
	}
	o := reconfigure.Outcome{Request: r.ID}
	for _, node := range nodeset.Of(slices.Collect(maps.Keys(own))...).Names() {
		o.Verdicts = append(o.Verdicts, own[node])
	}
	o.Code = code(o.Verdicts)
	return o
}

// code sums verdicts up.
func code(verdicts []reconfigure.Verdict) reconfigure.Code {
	var good, bad, refused int
	for _, v := range verdicts {
		switch v.Status {
		case reconfigure.StatusDone, reconfigure.StatusUnchanged:
			good++
		case reconfigure.StatusRefused:
			refused++
			bad++
		default:
			bad++
		}
	}
	switch {
	case bad == 0:
		return reconfigure.CodeDone
	case good > 0:
		return reconfigure.CodePartial
	case refused > 0:
		return reconfigure.CodeRefused
	}
	return reconfigure.CodeFailed
}
