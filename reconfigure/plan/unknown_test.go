package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// A call of 40 bytes can name 65,536 nodes, and Slurm's key may make many such calls.
func TestTheRejectionOfManyUnknownNodesIsSmall(t *testing.T) {
	nodes, err := nodeset.Parse("x[1-65536]")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []reconfigure.Mode{
		reconfigure.Resume, reconfigure.Suspend, reconfigure.Update, reconfigure.MakeImage,
	} {
		p := plan.Compute(reconfigure.Cluster{}, snapshot.Snapshot{}, []reconfigure.Request{{ID: 1, Mode: m, Nodes: nodes}})
		if text, _ := json.Marshal(p); len(text) > 1000 {
			t.Errorf("%s: the plan has %d bytes", m, len(text))
		}
	}
}
