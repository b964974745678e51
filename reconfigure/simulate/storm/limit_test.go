package storm

import (
	"context"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// there returns the compute nodes that have an instance in the cloud.
func (s *storm) there() nodeset.NodeSet {
	servers, err := s.world.Servers(context.Background(), nodeset.NodeSet{})
	if err != nil {
		return nodeset.NodeSet{} // the cloud does not answer
	}
	return declared(1, most).Nodes().Intersect(nodeset.Collect(maps.Keys(servers)))
}

// TestStormWithinALimit runs storms in which at most three nodes may exist at a time, also when workers are killed and
// several plans overlap.
func TestStormWithinALimit(t *testing.T) {
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(deeds())), func(kind string) bool { return kind == "declare" })
	kinds = append(kinds, "jobs need", "jobs need", "jobs need", "jobs end on", "kill", "kill now", "builds are slow")
	blowWith(t, func(s *storm) { s.limit = 3 }, func(t *rapid.T) []step { return drawStepsOf(t, kinds, nodeFaults()) })
}
