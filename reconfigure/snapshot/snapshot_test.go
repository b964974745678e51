package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The map of nodes is kept before Terraform is started, so after a kill it may say what has not come true.
func TestTheMapAsFarAsItCameTrue(t *testing.T) {
	old := reconfigure.Spec{Group: "g", ImageID: "old", FlavorID: "f", NetworkID: "n"}
	wanted, port := old, reconfigure.Spec{Group: "g", NetworkID: "n", Shard: "g-0"}
	wanted.ImageID, wanted.Shard = "new", "g-0"
	still := old
	still.Shard = "g-0"
	for name, tc := range map[string]struct {
		told     reconfigure.Spec
		instance reconfigure.Instance
		want     reconfigure.Spec
	}{
		"another image":                        {wanted, reconfigure.Instance{ID: "i", Made: old}, still},
		"another image, half made":             {wanted, reconfigure.Instance{ID: "i", Made: old, Tainted: true}, wanted},
		"no instance yet":                      {wanted, reconfigure.Instance{}, wanted},
		"the instance was to go, not the port": {port, reconfigure.Instance{ID: "i", Made: old}, port},
	} {
		state := reconfigure.State{Desired: map[string]reconfigure.Spec{"n1": tc.told}, Instances: map[string]reconfigure.Instance{"n1": tc.instance}}
		if diff := cmp.Diff(map[string]reconfigure.Spec{"n1": tc.want}, carriedOut(state)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
