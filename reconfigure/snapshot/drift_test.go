package snapshot_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestAGroupHasWhatItDeclaresAndWhatIsLeft(t *testing.T) {
	cluster := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl"},
		Groups: []reconfigure.NodeGroup{
			{Name: "a", Prefix: "a", Width: 1, Min: 1, Max: 3},
			{Name: "b", Prefix: "b", Width: 1, Min: 0, Max: 2},
		},
	}
	told := map[string]reconfigure.Spec{
		"ctl": {Group: reconfigure.ControlGroup}, "oldctl": {Group: reconfigure.ControlGroup},
		"a1": {Group: "a"}, "a7": {Group: "a"}, "b9": {Group: "b"}, "gone4": {Group: "gone"},
		"b1": {Group: "a"}, // which was once in another group
	}
	for groups, want := range map[string]string{
		"":        "a[1-3,7],b[1-2,9],gone4",
		"a":       "a[1-3,7]",
		"b":       "b[1-2,9]",
		"b a":     "a[1-3,7],b[1-2,9]",
		"gone":    "gone4",
		"c":       `there is no node group "c"; the groups of all.yml are a, b`,
		"a c":     `there is no node group "c"; the groups of all.yml are a, b`,
		"control": `there is no node group "control"; the groups of all.yml are a, b`,
	} {
		nodes, err := snapshot.Snapshot{Desired: told}.InGroups(cluster, strings.Fields(groups))
		got := nodes.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("in %s: %s, want %s", groups, got, want)
		}
	}
}
