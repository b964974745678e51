package ansible

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestMeasuredHardwareIsThatOfTheFirstNode makes nodes answer that were not asked, since nodes are not trusted.
func TestMeasuredHardwareIsThatOfTheFirstNode(t *testing.T) {
	c := reconfigure.Cluster{
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Max: 9}, {Name: "big", Prefix: "big", Width: 1, Max: 9},
		},
		Settings: reconfigure.Settings{StateDir: t.TempDir()},
	}
	if err := os.Mkdir(filepath.Join(c.Settings.StateDir, "ansible"), 0o700); err != nil {
		t.Fatal(err)
	}
	instances := map[string]reconfigure.Instance{"node02": {Made: reconfigure.Spec{FlavorID: "f2"}}}
	want := map[string]reconfigure.Measured{}
	for _, step := range []struct {
		changed []string
		printed map[string]string
		changes func()
	}{
		{[]string{"ctl", "node03", "node02"}, map[string]string{"node02": "two", "node03": "three", "big1": "x", "ctl": "x"},
			func() { want["standard"] = reconfigure.Measured{Node: "node02", FlavorID: "f2", Printed: "two"} }},
		{[]string{"big1"}, map[string]string{"big1": "one", "node02": "x"},
			func() { want["big"] = reconfigure.Measured{Node: "big1", Printed: "one"} }},
		{[]string{"node03", "big1"}, map[string]string{"node03": "", "big1": strings.Repeat("x", 1<<20)}, func() {}},
		{[]string{"ctl"}, map[string]string{"ctl": "x"}, func() {}},
	} {
		step.changes()
		if err := keepMeasured(c, instances, nodeset.Of(step.changed...), step.printed); err != nil {
			t.Fatal(err)
		}
		got, err := Measured(c.Settings.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", step.changed, diff)
		}
	}
}
