package ansible

import (
	"maps"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Play is what a run of the playbooks does, and on which nodes.
type Play struct {
	Name  string          `json:"name"`
	Hosts nodeset.NodeSet `json:"hosts"`
}

// Plays foretells what Configure does for a plan, by the names that the plays have in site.yml. Those that only ask for something are left out.
func Plays(c reconfigure.Cluster, before map[string]reconfigure.Instance, p reconfigure.Plan) []Play {
	extent := withControl(c, reconfigure.Extent{
		Changed:    p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure),
		Everywhere: p.Everywhere,
	})
	changed := extent.Changed
	if changed.Empty() {
		return nil
	}
	declared := c.Nodes().Union(nodeset.Of(c.Control.Name))
	all := nodeset.Collect(maps.Keys(before)).Difference(p.Nodes(reconfigure.Remove)).Union(changed).Intersect(declared)
	control := changed.Intersect(nodeset.Of(c.Control.Name))
	compute := changed.Difference(control)
	var elsewhere nodeset.NodeSet
	if extent.Everywhere {
		elsewhere = all.Difference(changed)
	}
	var plays []Play
	for _, play := range []Play{
		{"What all nodes know of each other", all},
		{"The control node", control},
		{"The configuration of Slurm elsewhere", elsewhere},
		{"The compute nodes", compute},
		{"Jobs may start", compute},
	} {
		if !play.Hosts.Empty() {
			plays = append(plays, play)
		}
	}
	return plays
}
