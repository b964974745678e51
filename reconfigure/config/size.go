package config

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Size is how many persistent nodes somebody wants: so many in all, or so many more or less.
type Size struct {
	Nodes    int
	Relative bool
}

// Enlarged returns min_nodes as it is wanted for a group that is to grow.
func (wanted Size) Enlarged(g reconfigure.NodeGroup) (int, error) {
	switch {
	case wanted.Relative && wanted.Nodes > g.Max-g.Min, wanted.Nodes > g.Max:
		return 0, fmt.Errorf(
			"max_nodes of %s is %d, and min_nodes %d: raise max_nodes in group_vars/all.yml first",
			g.Name,
			g.Max,
			g.Min,
		)
	case wanted.Relative:
		return g.Min + wanted.Nodes, nil
	case wanted.Nodes < g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is %d, which is more already: `reconfigure shrink %s --to %d` makes it less",
			g.Name,
			g.Min,
			g.Name,
			wanted.Nodes,
		)
	}
	return wanted.Nodes, nil
}

// Shrunk returns min_nodes as it is wanted for a group that is to become smaller.
func (wanted Size) Shrunk(g reconfigure.NodeGroup) (int, error) {
	switch {
	case wanted.Relative && wanted.Nodes > g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is %d, so there are no %d nodes to take away",
			g.Name,
			g.Min,
			wanted.Nodes,
		)
	case wanted.Relative:
		return g.Min - wanted.Nodes, nil
	case wanted.Nodes > g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is %d, which is less already: `reconfigure enlarge %s --to %d` makes it more",
			g.Name,
			g.Min,
			g.Name,
			wanted.Nodes,
		)
	}
	return wanted.Nodes, nil
}
