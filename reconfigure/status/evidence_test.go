package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestEvidenceIsShownLineByLineAndSteersNoTerminal(t *testing.T) {
	var out strings.Builder
	for _, e := range []reconfigure.Evidence{
		{
			Time: utcNoon, Plan: 7, Node: "node01", Phase: reconfigure.PhaseBoot, Kind: reconfigure.WitnessConsole,
			Text: "[\x1b[32m  OK  \x1b[0m] Started\r\n\n\tlogin: ",
		},
		{
			Time: utcNoon, Plan: 7, Node: "node02", Phase: reconfigure.PhaseConfigure, Kind: reconfigure.WitnessTask,
			Text: "task: Start slurmd\nrc: 1\n",
		},
	} {
		writeEvidence(&out, e)
	}
	golden(t, "evidence.txt", out.String())
}

func TestLastFailureIsOfTheLastPlanOfEachNode(t *testing.T) {
	of := func(plan int64, node string, kind reconfigure.Witness) reconfigure.Evidence {
		return reconfigure.Evidence{Plan: plan, Node: node, Kind: kind}
	}
	const console, task = reconfigure.WitnessConsole, reconfigure.WitnessTask
	kept := []reconfigure.Evidence{
		of(1, "a", console),
		of(1, "b", task),
		of(1, "b", console),
		of(2, "a", task),
		of(2, "a", console),
	}
	want := []reconfigure.Evidence{kept[1], kept[2], kept[3], kept[4]}
	if diff := cmp.Diff(want, LastFailures(kept)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
