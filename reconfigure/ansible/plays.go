package ansible

import (
	"maps"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Play is a play of site.yml that a run executes, and its nodes.
type Play struct {
	Name  string          `json:"name"`
	Hosts nodeset.NodeSet `json:"hosts"`
}

// Plays returns the plays of site.yml that Configure will run for a plan. It leaves out plays that only read or are
// only for images without packages, and plays for nodes that are started, which normally need none.
func Plays(c reconfigure.Cluster, before map[string]reconfigure.Instance, p reconfigure.Plan) []Play {
	extent := withControl(c, reconfigure.Extent{
		Changed: p.Nodes(
			reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Boot, reconfigure.Configure,
		),
		Everywhere: p.Everywhere,
	})
	extent.Addresses = p.Shared || p.Everywhere || c.ChangesAddresses(extent.Changed)
	changed := extent.Changed
	if changed.Empty() {
		return nil
	}
	declared := c.Nodes().Union(nodeset.Of(c.Control.Name))
	run := nodeset.Collect(maps.Keys(before)).Where(func(node string) bool { return !before[node].Made.Stopped() })
	all := run.Difference(p.Nodes(reconfigure.Remove, reconfigure.Stop)).Union(changed).Intersect(declared)
	if c.Attached() {
		all = all.Difference(nodeset.Of(c.Control.Name))
	}
	control := changed.Intersect(nodeset.Of(c.Control.Name))
	compute := changed.Difference(control)
	controlPlay := "The control node"
	if c.Attached() {
		controlPlay = "The files for the compute nodes"
	}
	var told, elsewhere, lookup nodeset.NodeSet
	if extent.Addresses {
		told = all.Difference(changed)
	}
	if extent.Everywhere {
		elsewhere = all.Difference(changed)
	}
	if c.Attached() {
		elsewhere = nodeset.NodeSet{}
	} else if extent.Addresses && control.Empty() && !changed.Intersect(c.Persistent()).Empty() {
		lookup = nodeset.Of(c.Control.Name)
	}
	var plays []Play
	for _, play := range []Play{
		{"Addresses on the other nodes", told},
		{controlPlay, control},
		{"Slurm's configuration on the other nodes", elsewhere},
		{"New addresses of persistent nodes", lookup},
		{"The compute nodes", compute},
	} {
		if !play.Hosts.Empty() {
			plays = append(plays, play)
		}
	}
	return plays
}
