package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// wholeLook is the interval of whole snapshots while requests wait for jobs. In between, only Slurm is asked, for the
// states of their nodes: a snapshot of a large cluster is expensive, and jobs may take a day.
const wholeLook = time.Minute

// waits is the last planning if it found only nodes that wait for their jobs; else it is the zero value.
type waits struct {
	requests []reconfigure.RequestID
	time     time.Time
	site     Site
	control  reconfigure.Instance
	nodes    nodeset.NodeSet
	states   map[string]reconfigure.NodeState
}

// waitsOf returns the waits of planning.
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

// open returns the nodes of requests that have no verdict yet and no operation in progress.
func open(requests []reconfigure.Request) nodeset.NodeSet {
	var nodes nodeset.NodeSet
	for _, r := range requests {
		nodes = nodes.Union(r.Open())
	}
	return nodes
}

// covers reports whether planning these requests again finds the same as the last one, unless a state of their nodes
// has changed in Slurm. It is false when the next whole snapshot is due.
func (w waits) covers(requests []reconfigure.Request, now time.Time) bool {
	if len(w.requests) == 0 || now.Sub(w.time) >= wholeLook {
		return false
	}
	if !slices.Equal(ids(requests), w.requests) || !open(requests).Equal(w.nodes) {
		return false
	}
	return !slices.ContainsFunc(requests, func(r reconfigure.Request) bool { return r.Late(now) })
}

// last asks Slurm, and reports whether the states of the nodes are unchanged. It reports false if Slurm does not
// answer; the whole snapshot that follows handles that.
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
