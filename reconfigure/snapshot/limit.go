package snapshot

import (
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Existing returns the nodes of a limit's groups that have an instance, also a stopped one or a part of one, or an
// operation in progress that may make or remove it.
func (s Snapshot) Existing(c reconfigure.Cluster, l reconfigure.Limit) nodeset.NodeSet {
	var all nodeset.NodeSet
	for _, g := range c.Groups {
		if slices.Contains(l.Groups, g.Name) {
			all = all.Union(g.Nodes())
		}
	}
	return all.Where(func(node string) bool {
		_, there := s.Instances[node]
		return there || s.Desired[node].HasInstance() || s.UnderWay.Contains(node)
	})
}
