package failure_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

var five = []string{"w01", "w02", "w03", "w04", "w05"}

// TestAnErrorInTheVariablesCostsNoInstance puts an error into group_vars/cluster.yml while nodes are resumed, and
// corrects it.
func TestAnErrorInTheVariablesCostsNoInstance(t *testing.T) {
	variables := filepath.Join(lab.Site, "group_vars", "cluster.yml")
	good, err := os.ReadFile(variables)
	if err != nil {
		t.Fatal(err)
	}
	correct := func() {
		if err := os.WriteFile(variables, good, 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(correct)
	lab.PlaybooksRunAgain(t, lab.Journal(t), five, "group_vars/cluster.yml, line ", func(t *testing.T) (end func()) {
		if err := os.WriteFile(variables, append([]byte("slurm_scripts_pauses: [1: 2\n"), good...), 0o644); err != nil {
			t.Fatal(err)
		}
		return correct
	})
	lab.AssertAllIsWell(t)
}

// TestASilentControlNodeCostsNoInstance cuts the control node off while nodes are resumed, and removes the nodes' files
// from the control host, which must then read them from the control node.
func TestASilentControlNodeCostsNoInstance(t *testing.T) {
	err := os.Remove(filepath.Join(lab.StateDir(), "ansible", "given.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	lab.PlaybooksRunAgain(t, lab.Journal(t), five, "the run ended at "+cluster.ControlNodeName,
		func(t *testing.T) (end func()) { return lab.CutOff(t, cluster.ControlNodeName) })
	lab.AssertAllIsWell(t)
}
