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

// Plays foretells what Configure does for a plan, by the names that the plays have in site.yml; addresses is as in the
// extent. Those that only read, or that do more only on images without packages, are left out.
func Plays(c reconfigure.Cluster, before map[string]reconfigure.Instance, p reconfigure.Plan, addresses bool) []Play {
	extent := withControl(c, reconfigure.Extent{
		Changed:    p.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure),
		Everywhere: p.Everywhere,
		Addresses:  addresses,
	})
	changed := extent.Changed
	if changed.Empty() {
		return nil
	}
	declared := c.Nodes().Union(nodeset.Of(c.Control.Name))
	all := nodeset.Collect(maps.Keys(before)).Difference(p.Nodes(reconfigure.Remove)).Union(changed).Intersect(declared)
	control := changed.Intersect(nodeset.Of(c.Control.Name))
	compute := changed.Difference(control)
	var told, elsewhere, lookup nodeset.NodeSet
	if extent.Addresses {
		told = all.Difference(changed)
	}
	if extent.Everywhere {
		elsewhere = all.Difference(changed)
	}
	if extent.Addresses && control.Empty() && !changed.Intersect(c.Persistent()).Empty() {
		lookup = nodeset.Of(c.Control.Name)
	}
	var plays []Play
	for _, play := range []Play{
		{"What all nodes know of each other", told},
		{"The control node", control},
		{"The configuration of Slurm elsewhere", elsewhere},
		{"New addresses of persistent nodes", lookup},
		{"The compute nodes", compute},
	} {
		if !play.Hosts.Empty() {
			plays = append(plays, play)
		}
	}
	return plays
}
