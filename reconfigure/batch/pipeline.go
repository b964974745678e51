package batch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// Engine looks, and carries out what was planned.
type Engine interface {
	Observer
	// Carry calls made, once, when Terraform has made and removed what the plan says, or has failed to.
	Carry(ctx context.Context, batch int64, seen reconfigure.Observation, p reconfigure.Plan, made func()) (map[string]reconfigure.Verdict, error)
}

// Pipeline is the Carrier of the product: open, observe, plan, carry out.
type Pipeline struct {
	// Open reads the declaration and ties an engine for it; it is called for each batch, so that an edit counts from the next batch on. With an error it SHOULD
	// give the cluster still, where that could be read.
	Open func(ctx context.Context) (reconfigure.Cluster, Engine, error)
	// Turn waits until no other batch uses Terraform, which has one user at a time; done ends the turn, however often it is called. An error is that of a ctx that has
	// ended. Nil: no two batches are ever under way together.
	Turn func(ctx context.Context) (done func(), err error)
}

// Carry carries out the requests of one batch. From the look on which the plan is made until that is carried out by Terraform no other batch may change what there
// is: a plan has the whole map of nodes, and would bring back what another batch has removed since.
func (p Pipeline) Carry(ctx context.Context, batch int64, requests []reconfigure.Request, made func()) ([]reconfigure.Outcome, error) {
	done, err := p.turn(ctx)
	if err != nil {
		return nil, nil // ctx has ended
	}
	defer done()
	l, err := p.look(ctx, requests)
	if err != nil && ctx.Err() != nil {
		return nil, nil // nothing was done, and nothing is known
	}
	outcomes := make([]reconfigure.Outcome, len(requests))
	if err != nil {
		for i, r := range requests {
			outcomes[i] = unplanned(r, l.cluster, time.Now(), err)
		}
		return outcomes, nil
	}
	verdicts, err := l.engine.Carry(ctx, batch, l.seen, l.plan, func() {
		done()
		if !goesAlone(l.plan) {
			made()
		}
	})
	if err != nil {
		return nil, err // what became of the nodes is not written down: to carry the requests once more ends their way
	}
	for i, r := range requests {
		outcomes[i] = outcome(r, l.plan, verdicts)
	}
	return outcomes, nil
}

// Stirs tells whether there is anything to do for requests that were held, or to say of them: jobs have ended, the time is over, the cloud answers again.
func (p Pipeline) Stirs(ctx context.Context, held []reconfigure.Request) (bool, error) {
	l, err := p.look(ctx, held)
	stirs := len(l.plan.Changes)+len(l.plan.Rejected) > 0
	for _, r := range held {
		waits := waitsOf(r, l.plan)
		if err != nil {
			waits = unplanned(r, l.cluster, time.Now(), err).Waiting
		}
		stirs = stirs || !slices.Equal(waits, r.Waits)
	}
	return stirs, err
}

// goesAlone tells that a plan concerns every node, until its end.
func goesAlone(p reconfigure.Plan) bool { return p.Everywhere || p.Shared }

// turn waits for Terraform.
func (p Pipeline) turn(ctx context.Context) (done func(), err error) {
	if p.Turn == nil {
		return func() {}, nil
	}
	return p.Turn(ctx)
}

// look is what is planned for requests, and from what.
type look struct {
	cluster reconfigure.Cluster
	engine  Engine
	seen    reconfigure.Observation
	plan    reconfigure.Plan
}

// look changes nothing. With an error the cluster is there if its declaration could be read.
func (p Pipeline) look(ctx context.Context, requests []reconfigure.Request) (l look, err error) {
	if l.cluster, l.engine, err = p.Open(ctx); err != nil {
		return l, err
	}
	l.seen, l.plan, err = Decide(ctx, l.cluster, l.engine, requests)
	return l, err
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
func outcome(r reconfigure.Request, p reconfigure.Plan, verdicts map[string]reconfigure.Verdict) reconfigure.Outcome {
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
			own[rejected.Node] = reconfigure.Verdict{Node: rejected.Node, Status: reconfigure.StatusRejected, Phase: reconfigure.PhasePlan, Class: rejected.Class, Reason: rejected.Reason}
		}
	}
	o := reconfigure.Outcome{Request: r.ID, Waiting: append(waiting(r, p, own), again(r, own)...)}
	for _, w := range o.Waiting {
		delete(own, w.Node)
	}
	for _, node := range nodeset.Collect(maps.Keys(own)).Names() {
		o.Verdicts = append(o.Verdicts, own[node])
	}
	o.Code = code(o.Verdicts)
	return o
}

// waiting is the nodes that a request waits for: not those that could not even be drained.
func waiting(r reconfigure.Request, p reconfigure.Plan, own map[string]reconfigure.Verdict) []reconfigure.Wait {
	return slices.DeleteFunc(waitsOf(r, p), func(w reconfigure.Wait) bool { return own[w.Node].Status == reconfigure.StatusFailed })
}

func waitsOf(r reconfigure.Request, p reconfigure.Plan) []reconfigure.Wait {
	return slices.DeleteFunc(slices.Clone(p.Waiting), func(w reconfigure.Wait) bool { return w.Request != r.ID })
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
