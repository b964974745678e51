package storm

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestStormOfOldNodes runs storms in which Slurm powers down many nodes when their jobs have ended. Some of them become
// persistent meanwhile.
func TestStormOfOldNodes(t *testing.T) {
	var kinds []string // the first kinds are drawn most often
	for range 10 {
		kinds = append(kinds, "jobs need", "time passes", "retire", "time passes", "jobs end on")
	}
	kinds = slices.AppendSeq(kinds, maps.Keys(deeds()))
	slices.Sort(kinds[50:])
	kinds = append(kinds, slices.Repeat([]string{"declare"}, 5)...)
	blow(t, func(t *rapid.T) []step { return drawStepsOf(t, kinds, nodeFaults()) })
}
