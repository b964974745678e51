package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// wholeLook is how often everything is looked at for requests that wait for jobs. In between only Slurm is asked whether
// anything has changed on their nodes: a snapshot of a large cluster is expensive, and jobs may take a day.
const wholeLook = time.Minute

// waits is what the last look found, where nothing came of it but that nodes wait for their jobs; the zero value where
// something else did.
type waits struct {
	requests []reconfigure.RequestID
	time     time.Time
	site     Site
	control  reconfigure.Instance
	nodes    nodeset.NodeSet
	states   map[string]reconfigure.NodeState
}

// waitsOf is what a look has found.
func waitsOf(l planned) waits {
	w := waits{
		requests: ids(l.requests), time: l.seen.Time, site: l.site,
		control: l.seen.Instances[l.site.Cluster.Control.Name], states: map[string]reconfigure.NodeState{},
	}
	if starts(l.plan) || len(l.plan.Rejected) > 0 || l.site.States == nil {
		return waits{}
	}
	w.nodes = open(l.requests)
	for _, d := range l.plan.Deferred {
		if d.Kind != reconfigure.WaitsForJobs || !w.nodes.Contains(d.Node) {
			return waits{}
		}
	}
	for node := range w.nodes.All() {
		if state, known := l.seen.States[node]; known {
			w.states[node] = state
		}
	}
	return w
}

// open is the nodes of requests that have no verdict yet, and no operation under way.
func open(requests []reconfigure.Request) nodeset.NodeSet {
	var nodes nodeset.NodeSet
	for _, r := range requests {
		nodes = nodes.Union(r.Open())
	}
	return nodes
}

// covers reports whether the next look at some requests can only find what the last one did, unless Slurm says something
// else of their nodes.
func (w waits) covers(requests []reconfigure.Request, now time.Time) bool {
	if len(w.requests) == 0 || now.Sub(w.time) >= wholeLook {
		return false
	}
	if !slices.Equal(ids(requests), w.requests) || !open(requests).Equal(w.nodes) {
		return false
	}
	return !slices.ContainsFunc(requests, func(r reconfigure.Request) bool { return r.Late(now) })
}

// last asks Slurm, and reports whether it says the same of the nodes as before. Where it does not answer, that is for a whole
// look to find.
func (w waits) last(ctx context.Context) bool {
	states, err := w.site.States(ctx, w.control, w.nodes)
	if err != nil {
		return false
	}
	now := map[string]reconfigure.NodeState{}
	for node, state := range states {
		if w.nodes.Contains(node) {
			now[node] = state
		}
	}
	return maps.EqualFunc(w.states, now, reconfigure.NodeState.Equal)
}
