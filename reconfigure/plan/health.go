package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// restrain rejects what Slurm asks for of node groups that do not fare well, so that its jobs go back into the queue now and not after another failure; and with
// it what their jobs alone need, where these get all of their nodes or none. What a person asks for is tried all the same, and so is what there is an instance
// of, or a part of one, after a worker has died: nothing half made is left to itself.
func (p *planner) restrain(requests []reconfigure.Request) {
	refused := reconfigure.Failures{}
	for _, g := range p.cluster.Groups {
		if h, ails := p.seen.Health[g.Name]; ails {
			p.cool(h, p.optional(g, requests), refused)
			p.tryOne(h, p.optional(g, requests).Difference(refused.Nodes()), refused)
		}
	}
	spare := p.where(func(c reconfigure.Change) bool {
		return c.Action == reconfigure.Create && c.ForJobs && !c.Probe && !p.persistent.Contains(c.Node)
	})
	without := noRoom(requests)
	maps.Copy(without, refused)
	for node, err := range p.cluster.GiveUp(p.jobs, without, spare) {
		refused[node] = err
	}
	for node := range refused.Nodes().All() {
		p.refuse(node, refused[node])
	}
}

// noRoom is the nodes that an earlier worker has found no room for.
func noRoom(requests []reconfigure.Request) reconfigure.Failures {
	failures := reconfigure.Failures{}
	for _, r := range requests {
		for _, v := range r.Verdicts {
			if v.Class.NoRoom() {
				failures[v.Node] = reconfigure.Classify(v.Class, errors.New(v.Reason))
			}
		}
	}
	return failures
}

// optional is the cloud nodes of a group that get their instance for Slurm alone.
func (p *planner) optional(g reconfigure.NodeGroup, requests []reconfigure.Request) nodeset.NodeSet {
	insists := map[reconfigure.RequestID]bool{}
	for _, r := range requests {
		insists[r.ID] = r.Mode != reconfigure.Resume || r.Insist
	}
	return p.where(func(c reconfigure.Change) bool {
		return c.Action == reconfigure.Create && !slices.ContainsFunc(c.Requests, func(id reconfigure.RequestID) bool { return insists[id] })
	}).Intersect(g.Nodes().Difference(g.Persistent()))
}

func (p *planner) where(is func(reconfigure.Change) bool) nodeset.NodeSet {
	var names []string
	for node, c := range p.changes {
		if is(*c) {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// cool refuses nodes of a group that there was no room for a moment ago.
func (p *planner) cool(h reconfigure.Health, nodes nodeset.NodeSet, refused reconfigure.Failures) {
	until, cools := h.CoolsDown(p.seen.Time, p.cluster.Settings)
	if !cools {
		return
	}
	for node := range nodes.All() {
		refused[node] = reconfigure.Classify(h.Full.Class, fmt.Errorf("group %s cools down until %s: %s", h.Group, clock(until), h.Full.Reason))
	}
}

// tryOne lets one node through where those before it did not boot: the one that is on its way, else the one that most jobs wait for.
func (p *planner) tryOne(h reconfigure.Health, nodes nodeset.NodeSet, refused reconfigure.Failures) {
	if !h.Broken(p.cluster.Settings) || nodes.Empty() {
		return
	}
	probe := h.Probing(p.seen.Time, p.cluster.Slurm)
	if probe == "" {
		waiting := reconfigure.Waiting(p.jobs)
		probe = slices.MaxFunc(nodes.Names(), func(a, b string) int { return waiting[a] - waiting[b] })
	}
	failures := fmt.Sprintf("%d boot failures in a row in group %s", h.Failures, h.Group)
	for node := range nodes.All() {
		if node != probe {
			refused[node] = reconfigure.Classify(h.Last.Class,
				fmt.Errorf("%s, so %s is tried alone; the last was %s: %s", failures, probe, h.Last.Node, h.Last.Reason))
		}
	}
	if c := p.changes[probe]; nodes.Contains(probe) {
		c.Probe, c.Reason = true, c.Reason+"; it is tried alone after "+failures
	}
}

// clock is a time of today, for people.
func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

// refuse rejects a node for all that asked for it, and leaves it without an instance.
func (p *planner) refuse(node string, err error) {
	c := p.changes[node]
	for _, id := range c.Requests {
		p.rejectFor(reconfigure.Request{ID: id, Mode: reconfigure.Resume}, node, err)
	}
	delete(p.changes, node)
	delete(p.desired, node)
	if spec, was := p.seen.Desired[node]; was { // its making was cut short before Terraform knew of it
		p.desired[node] = spec
	}
}
