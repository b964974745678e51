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

// restrain rejects nodes of groups with recent failures, if only Slurm asks for them. So their jobs are requeued now,
// not after another failure. If such a job needs all of its nodes or none, restrain also rejects its other nodes. It
// does not reject nodes that a person asks for, nor nodes with an instance or a part of one, so that unfinished
// instances are completed. It also rejects nodes beyond a limit in the declaration.
func (p *planner) restrain(requests []reconfigure.Request) {
	refused := reconfigure.Failures{}
	for _, g := range p.cluster.Groups {
		if h, ok := p.seen.Health[g.Name]; ok {
			p.cool(h, p.optional(g, requests), refused)
			p.tryOne(h, p.optional(g, requests).Difference(refused.Nodes()), refused)
		}
	}
	for _, l := range p.cluster.Limits {
		p.limit(l, refused)
	}
	spare := p.where(func(c reconfigure.Change) bool {
		return c.Action == reconfigure.Create && c.ForJobs && !c.Probe && !p.persistent.Contains(c.Node)
	})
	without := noRoom(requests)
	maps.Copy(without, refused)
	for node, err := range GiveUp(p.cluster, p.jobs, without, spare) {
		refused[node] = err
	}
	for node := range refused.Nodes().All() {
		p.refuse(node, refused[node])
	}
}

// noRoom returns the nodes for which an earlier worker found no room.
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

// optional returns the cloud nodes of a group that would get an instance only because Slurm asks for them.
func (p *planner) optional(g reconfigure.NodeGroup, requests []reconfigure.Request) nodeset.NodeSet {
	insists := map[reconfigure.RequestID]bool{}
	for _, r := range requests {
		insists[r.ID] = r.Mode != reconfigure.Resume || r.Insist
	}
	return p.where(func(c reconfigure.Change) bool {
		return c.Action == reconfigure.Create &&
			!slices.ContainsFunc(c.Requests, func(id reconfigure.RequestID) bool { return insists[id] })
	}).Intersect(g.CloudNodes())
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

// cool refuses the nodes of a group that cools down after a lack of room.
func (p *planner) cool(h reconfigure.Health, nodes nodeset.NodeSet, refused reconfigure.Failures) {
	until, cools := CoolsDown(h, p.seen.Time, p.cluster.Settings)
	if !cools {
		return
	}
	for node := range nodes.All() {
		refused[node] = reconfigure.Classify(h.Full.Class,
			fmt.Errorf("group %s cools down until %s: %s", h.Group, clock(until), h.Full.Reason))
	}
}

// tryOne refuses all nodes of a group whose breaker is open, except one: the group's probe, else the node for which
// most jobs wait.
func (p *planner) tryOne(h reconfigure.Health, nodes nodeset.NodeSet, refused reconfigure.Failures) {
	if !Broken(h, p.cluster.Settings) || nodes.Empty() {
		return
	}
	probe := Probing(h, p.seen.Time, p.cluster.Slurm)
	if probe == "" {
		waiting := reconfigure.Waiting(p.jobs)
		probe = slices.MaxFunc(nodes.Names(), func(a, b string) int { return waiting[a] - waiting[b] })
	}
	failures := fmt.Sprintf("%d boot failures in a row in group %s", h.Failures, h.Group)
	for node := range nodes.All() {
		if node != probe {
			refused[node] = reconfigure.Classify(h.Last.Class,
				fmt.Errorf("%s, so %s is tried alone; the last was %s: %s", failures, probe, h.Last.Node,
					h.Last.Reason))
		}
	}
	if c := p.changes[probe]; nodes.Contains(probe) {
		c.Probe, c.Reason = true, c.Reason+"; it is tried alone after "+failures
	}
}

// clock returns the time of day, for messages.
func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

// refuse rejects a node for all of its requests, and removes it from the plan.
func (p *planner) refuse(node string, err error) {
	c := p.changes[node]
	for _, id := range c.Requests {
		p.rejectFor(reconfigure.Request{ID: id, Mode: reconfigure.Resume}, node, err)
	}
	delete(p.changes, node)
	delete(p.desired, node)
	// its creation was interrupted before it was in Terraform's state, or its port is kept
	if spec, was := p.seen.Desired[node]; was {
		p.desired[node] = spec
	}
}
