package status

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A resize may name thousands of nodes, few of which change.
func TestUnchangedNodesAreOneLine(t *testing.T) {
	g := reconfigure.NodeGroup{Prefix: "node", Width: 4, Max: 4000}
	o := reconfigure.Outcome{Code: reconfigure.CodeDone}
	for node := range g.Nodes().All() {
		v := reconfigure.Verdict{Node: node, Status: reconfigure.StatusUnchanged}
		if node == "node0017" {
			v = reconfigure.Verdict{Node: node, Status: reconfigure.StatusDone, Action: reconfigure.Create}
		}
		o.Verdicts = append(o.Verdicts, v)
	}
	var text strings.Builder
	if err := WriteOutcome(&text, reconfigure.Request{ID: 7}, o, 80); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(text.String(), "\n"); len(lines) != 4 ||
		lines[1] != "  unchanged  node[0001-0016,0018-4000]" ||
		lines[2] != "  created    node0017" {
		t.Errorf("the outcome is\n%s", &text)
	}
}

func TestRejectedNodesAreToldTogether(t *testing.T) {
	var report Preview
	for node := range (reconfigure.NodeGroup{Prefix: "node", Width: 4, Max: 4000}).Nodes().All() {
		report.Rejected = append(report.Rejected, reconfigure.Rejection{Node: node, Reason: "Slurm is\nsilent"})
	}
	report.Rejected = append(
		report.Rejected,
		reconfigure.Rejection{Node: "gpu1", Reason: "Slurm is\nsilent", Request: 3},
		reconfigure.Rejection{Node: "gpu2", Reason: "it is persistent"},
	)
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "rejected.txt", text.String())
}
