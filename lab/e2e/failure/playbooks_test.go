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

// TestAnErrorInTheVariablesCostsNoInstance has an administrator make a mistake in group_vars/cluster.yml while nodes
// are resumed, and correct it.
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
	assertAllIsWell(t)
}

// TestASilentControlNodeCostsNoInstance has the control node cut off while nodes are resumed, and the control host lack
// the files for the nodes, which it reads from the control node then.
func TestASilentControlNodeCostsNoInstance(t *testing.T) {
	err := os.Remove(filepath.Join(lab.StateDir(), "ansible", "given.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	lab.PlaybooksRunAgain(t, lab.Journal(t), five, "the run ended at "+cluster.ControlNodeName,
		func(t *testing.T) (end func()) { return lab.CutOff(t, cluster.ControlNodeName) })
	assertAllIsWell(t)
}
