package config

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Size is a wanted number of persistent nodes: a total, or a difference.
type Size struct {
	Nodes    int
	Relative bool
}

// Enlarged returns the new min_nodes of a group that is to grow.
func (wanted Size) Enlarged(g reconfigure.NodeGroup) (int, error) {
	switch {
	case wanted.Relative && wanted.Nodes > g.Max-g.Min, wanted.Nodes > g.Max:
		return 0, fmt.Errorf(
			"max_nodes of %s is %d, and min_nodes %d: raise max_nodes in all.yml first",
			g.Name,
			g.Max,
			g.Min,
		)
	case wanted.Relative:
		return g.Min + wanted.Nodes, nil
	case wanted.Nodes < g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is already higher, %d: `reconfigure shrink %s --to %d` lowers it",
			g.Name,
			g.Min,
			g.Name,
			wanted.Nodes,
		)
	}
	return wanted.Nodes, nil
}

// Shrunk returns the new min_nodes of a group that is to shrink.
func (wanted Size) Shrunk(g reconfigure.NodeGroup) (int, error) {
	switch {
	case wanted.Relative && wanted.Nodes > g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is %d, so %d nodes cannot be removed",
			g.Name,
			g.Min,
			wanted.Nodes,
		)
	case wanted.Relative:
		return g.Min - wanted.Nodes, nil
	case wanted.Nodes > g.Min:
		return 0, fmt.Errorf(
			"min_nodes of %s is already lower, %d: `reconfigure enlarge %s --to %d` raises it",
			g.Name,
			g.Min,
			g.Name,
			wanted.Nodes,
		)
	}
	return wanted.Nodes, nil
}
