package clouds_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestWholeClusterIsRemoved is the last test, since its file's name sorts last.
func TestWholeClusterIsRemoved(t *testing.T) {
	scenario(t, "the whole cluster is removed")
	lab.Do(t, "destroy", "--yes")
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		left := lab.Servers()
		return len(left) == 0, "servers are left: " + names(left)
	})
	lab.AssertTerraformIsClean(t)
}
