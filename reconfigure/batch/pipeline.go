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
	Observer
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
	seen, decided, err := Decide(ctx, cluster, engine, requests)
	if err != nil {
		return reconfigure.Plan{}, nil, err
	}
	verdicts, err := engine.Carry(ctx, batch, seen, decided)
	return decided, verdicts, err
}

// Stirs tells whether there is anything to do for requests that were held: jobs have ended, or the time for it is over.
func (p Pipeline) Stirs(ctx context.Context, held []reconfigure.Request) (bool, error) {
	cluster, engine, err := p.Open(ctx)
	if err != nil {
		return false, err
	}
	_, decided, err := Decide(ctx, cluster, engine, held)
	if err != nil {
		return false, err
	}
	waiting := map[reconfigure.RequestID]bool{}
	for _, w := range decided.Waiting {
		waiting[w.Request] = true
	}
	return len(decided.Changes)+len(decided.Rejected) > 0 || len(waiting) < len(held), nil
}

// Observer looks, and changes nothing.
type Observer interface {
	Observe(ctx context.Context, sources func(map[string]reconfigure.NodeState) []reconfigure.Source) (reconfigure.Observation, error)
}

// Decide looks and plans.
func Decide(ctx context.Context, cluster reconfigure.Cluster, engine Observer, requests []reconfigure.Request) (reconfigure.Observation, reconfigure.Plan, error) {
	seen, err := engine.Observe(ctx, func(states map[string]reconfigure.NodeState) []reconfigure.Source {
		return plan.Sources(cluster, states, requests)
	})
	if err != nil {
		return reconfigure.Observation{}, reconfigure.Plan{}, err
	}
	return seen, plan.Compute(cluster, seen, requests), nil
}

// outcome is what one caller gets: a verdict on each node that it named, or, where it named none, on each node that changed for it.
func outcome(r reconfigure.Request, p reconfigure.Plan, verdicts map[string]reconfigure.Verdict, err error) reconfigure.Outcome {
	switch {
	case err != nil && r.Held:
		// It has waited for hours, perhaps, and can wait until what ails us is over.
		return reconfigure.Outcome{Request: r.ID, Waiting: []reconfigure.Wait{{Request: r.ID, Reason: err.Error()}}, Verdicts: r.Settled}
	case err != nil:
		return reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeFailed, Error: err.Error()}
	}
	own := map[string]reconfigure.Verdict{}
	for node := range r.Nodes.All() {
		own[node] = reconfigure.Verdict{Node: node, Status: reconfigure.StatusUnchanged}
	}
	for _, v := range r.Settled {
		own[v.Node] = v
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
	o := reconfigure.Outcome{Request: r.ID, Waiting: waiting(r, p, own)}
	for _, w := range o.Waiting {
		delete(own, w.Node)
	}
	for _, node := range nodeset.Of(slices.Collect(maps.Keys(own))...).Names() {
		o.Verdicts = append(o.Verdicts, own[node])
	}
	o.Code = code(o.Verdicts)
	return o
}

// waiting is the nodes that a request waits for: not those that could not even be drained.
func waiting(r reconfigure.Request, p reconfigure.Plan, own map[string]reconfigure.Verdict) []reconfigure.Wait {
	var left []reconfigure.Wait
	for _, w := range p.Waiting {
		if w.Request == r.ID && own[w.Node].Status != reconfigure.StatusFailed {
			left = append(left, w)
		}
	}
	return left
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
