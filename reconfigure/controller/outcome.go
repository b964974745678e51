package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// progress is a request without an outcome, with its progress.
type progress struct {
	reconfigure.Request
	came     time.Time // when the request was first read
	verdicts map[string]reconfigure.Verdict
	deferred []reconfigure.Deferral
	planned  bool                           // a plan was made for it since this controller began
	underWay nodeset.NodeSet                // nodes with an operation for it
	drained  nodeset.NodeSet                // nodes that were drained for it since this controller began
	final    map[string]reconfigure.Verdict // verdicts of rejected nodes that still have an operation
	changed  bool                           // it has changed since it was stored
	written  time.Time                      // when it was stored
	failed   string                         // why the whole request failed
	code     reconfigure.Code               // the code of a whole request that failed
}

func newProgress(r reconfigure.Request) *progress {
	p := &progress{
		Request: r, came: time.Now(), verdicts: map[string]reconfigure.Verdict{}, final: map[string]reconfigure.Verdict{},
		deferred: r.Deferred,
	}
	for _, v := range r.Verdicts {
		p.verdicts[v.Node] = v
	}
	return p
}

// request returns the request with its progress. Nodes with operations in progress are not open, so that the other
// nodes, such as those that are already drained, are planned without them.
func (p *progress) request() reconfigure.Request {
	r := p.Request
	r.Deferred, r.Verdicts = p.deferred, p.list()
	for node := range p.underWay.All() {
		if _, known := p.verdicts[node]; !known {
			r.Verdicts = append(r.Verdicts, reconfigure.Verdict{Node: node})
		}
	}
	return r
}

// ready reports whether r, the request with its progress, may be planned now. A plan for the whole cluster or for its
// size does not begin before the last one has ended.
func (p *progress) ready(r reconfigure.Request, due bool) bool {
	switch {
	case !p.underWay.Empty() && (whole(r.Mode) || resizes(r.Mode) || r.Open().Empty()):
		return false
	case !r.IsDeferred():
		return !p.planned
	default:
		return due
	}
}

// list returns the verdicts so far. A verdict of several nodes is sorted by its hostlist.
func (p *progress) list() []reconfigure.Verdict {
	var all []reconfigure.Verdict
	for _, node := range nodeset.Collect(maps.Keys(p.verdicts)).Names() {
		all = append(all, p.verdicts[node])
	}
	return all
}

// arrival returns the request with the time at which it was read, if that is earlier than Submitted: the clock of the
// host where it was made may be ahead.
func (p *progress) arrival() reconfigure.Request {
	r := p.request()
	if p.came.Before(r.Submitted) {
		r.Submitted = p.came
	}
	return r
}

// begin applies the plan for the request's open nodes. Each node that the request names gets its verdict now, or when
// its operation has ended. If the request names no nodes, this applies to each node that changes for it.
func (p *progress) begin(open nodeset.NodeSet, plan reconfigure.Plan) {
	p.planned, p.changed = true, true
	p.deferred = slices.DeleteFunc(slices.Clone(p.deferred), func(d reconfigure.Deferral) bool {
		return d.Node == "" || open.Contains(d.Node)
	})
	for _, d := range plan.Deferred {
		if d.Request == p.ID {
			p.deferred = append(p.deferred, d)
		}
	}
	var under []string
	for _, c := range plan.Changes {
		if slices.Contains(c.Requests, p.ID) {
			under = append(under, c.Node)
		}
	}
	p.underWay = p.underWay.Union(nodeset.Of(under...))
	for _, r := range plan.Rejected {
		if r.Request != p.ID {
			continue
		}
		v := reconfigure.Verdict{
			Node: r.Node, Status: reconfigure.StatusRejected, Phase: reconfigure.PhasePlan, Class: r.Class, Reason: r.Reason,
		}
		c, changes := plan.Of(r.Node)
		own := changes && slices.Contains(c.Requests, p.ID)
		if own || !changes && r.Awaited { // the node is undrained, or handed back to Slurm, before its verdict
			p.final[r.Node], p.underWay = v, p.underWay.Union(nodeset.Of(r.Node))
		} else {
			p.verdicts[r.Node] = v
		}
	}
	for node := range p.request().Open().All() {
		if !p.isDeferred(node) {
			p.verdicts[node] = reconfigure.Verdict{Node: node, Status: reconfigure.StatusUnchanged}
		}
	}
}

func (p *progress) isDeferred(node string) bool {
	return slices.ContainsFunc(p.deferred, func(d reconfigure.Deferral) bool { return d.Node == node })
}

// end adds the verdict of an operation. A deferred node whose drain is done has no verdict yet.
func (p *progress) end(v reconfigure.Verdict) {
	p.changed = true
	p.underWay = p.underWay.Difference(nodeset.Of(v.Node))
	if rejected, ok := p.final[v.Node]; ok {
		delete(p.final, v.Node)
		p.verdicts[v.Node] = rejected
		return
	}
	if p.isDeferred(v.Node) && v.Status != reconfigure.StatusFailed {
		return
	}
	p.deferred = slices.DeleteFunc(slices.Clone(p.deferred), func(d reconfigure.Deferral) bool { return d.Node == v.Node })
	p.verdicts[v.Node] = v
}

// interrupted records that the operations for the request have ended without verdicts.
func (p *progress) interrupted() {
	if !p.underWay.Empty() {
		p.underWay, p.planned = nodeset.NodeSet{}, false
		clear(p.final)
	}
}

// supersede ends the request without further verdicts.
func (p *progress) supersede(destroy reconfigure.RequestID) {
	p.changed, p.code = true, reconfigure.CodeCancelled
	p.failed = fmt.Sprintf("request %s destroys the cluster", destroy)
}

// outcome returns the outcome for the caller. While the request has no outcome yet, Deferred is set.
func (p *progress) outcome() reconfigure.Outcome {
	o := reconfigure.Outcome{Request: p.ID, Verdicts: p.list(), Deferred: p.deferred, Error: p.failed}
	if o.Code = code(o.Verdicts); p.code != "" {
		o.Code = p.code
	}
	return o
}

// ended reports whether every node of the request has its verdict.
func (p *progress) ended() bool {
	return p.code != "" || p.planned && p.underWay.Empty() && len(p.deferred) == 0
}

// code returns the code of an outcome with these verdicts.
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
