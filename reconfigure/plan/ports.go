package plan

import (
	"maps"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// shard returns the shard of a node: the one that has its resources, else the one for a new entry.
func (p *planner) shard(node string) string {
	_, wanted := p.seen.Desired[node]
	_, there := p.seen.Instances[node]
	if wanted || there {
		return p.seen.Shard(node)
	}
	return p.cluster.Shard(node)
}

// forget removes a node's instance from the map of nodes. A kept port stays in the map, unless the whole cluster is
// destroyed.
func (p *planner) forget(r reconfigure.Request, node string) {
	was, ok := p.desired[node]
	delete(p.desired, node)
	if !ok || r.Mode == reconfigure.Destroy {
		return
	}
	if port, kept := p.cluster.WithoutInstance(node, was); kept {
		p.desired[node] = port
	}
}

// keepPorts gives each declared node of the groups that keep their ports an entry in the map of nodes, so that its
// port is made with the shared resources, and removes the ports that are no longer kept. A group whose network cannot
// be resolved gets its ports when its nodes are made, or with the next deploy.
func (p *planner) keepPorts(r reconfigure.Request) {
	for _, g := range p.cluster.Groups {
		network := p.seen.Sources[g.Source].NetworkID
		if !g.KeepPorts || network == "" {
			continue
		}
		for node := range g.Nodes().All() {
			if _, ok := p.desired[node]; !ok {
				p.desired[node] = reconfigure.Spec{Group: g.Name, NetworkID: network, Shard: p.shard(node)}
			}
		}
	}
	for node := range nodeset.Collect(maps.Keys(p.seen.Desired)).All() {
		_, there := p.seen.Instances[node]
		if !there && !p.seen.Desired[node].HasInstance() && !p.cluster.KeepsPort(node) && p.changes[node] == nil {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove,
				Reason: "its port is no longer kept"})
		}
	}
}

// portSources returns the sources that must be resolved for the ports that a deploy makes.
func portSources(cluster reconfigure.Cluster) []reconfigure.Source {
	var sources []reconfigure.Source
	for _, g := range cluster.Groups {
		if g.KeepPorts {
			sources = append(sources, g.Source)
		}
	}
	return sources
}
