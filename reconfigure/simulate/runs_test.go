package simulate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// The lock of Terraform's state makes runs of two workers wait for each other. One worker must not start two runs at
// the same time.
func TestTwoRunsOfTerraform(t *testing.T) {
	for name, c := range map[string]struct {
		second  func(*simulate.World, operation.Deps) operation.Deps
		clashes int
	}{
		"of one worker":  {func(_ *simulate.World, first operation.Deps) operation.Deps { return first }, 1},
		"of two workers": {func(w *simulate.World, _ operation.Deps) operation.Deps { return w.Deps() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := simulate.NewWorld(declared())
				w.Takes(simulate.Planning, time.Minute)
				began, first := time.Now(), w.Deps()
				for _, deps := range []operation.Deps{first, c.second(w, first)} {
					go func() { _, _ = deps.Provisioner("").Preview(t.Context(), reconfigure.Plan{}) }()
					synctest.Wait()
				}
				if _, err := w.Shard("").Preview(t.Context(), reconfigure.Plan{}); err != nil || time.Since(began) != 3*time.Minute {
					t.Errorf("a third run ends after %s, error %v", time.Since(began), err)
				}
				if clashes := w.Clashes(); len(clashes) != c.clashes {
					t.Errorf("clashes: %v", clashes)
				}
			})
		})
	}
}
