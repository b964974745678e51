package storm

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// TestStormOfFallbacks runs storms in which the cloud often has no room for what the group declares first.
func TestStormOfFallbacks(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(deeds()))
	kinds = append(kinds, slices.Repeat([]string{"jobs need", "node fault", "node fault", "kill now", "update"}, 4)...)
	faults := slices.Concat(nodeFaults(), slices.Repeat([]simulate.Fault{simulate.NoFirst}, 2*len(nodeFaults())))
	blowWith(t, func(s *storm) { s.falls = true }, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}
