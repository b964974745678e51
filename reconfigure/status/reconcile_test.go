package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestReconcileTable compares the table with a golden file: nodes with the same message share a row, and commands can
// be copied unchanged.
func TestReconcileTable(t *testing.T) {
	leaked := func(node string) reconcile.Finding {
		return reconcile.Finding{
			Node:   node,
			Kind:   reconcile.Leaked,
			Detail: "Slurm has powered it down, but its instance exists",
			Fix:    reconcile.Suspend,
		}
	}
	outdated := func(node string) reconcile.Finding {
		return reconcile.Finding{
			Node:    node,
			Kind:    reconcile.Outdated,
			Detail:  "its image differs from the declaration",
			Command: "reconfigure update " + reconcile.Nodes,
		}
	}
	report := NewReconcile("eiffel", reconcile.Comparison{
		Findings: []reconcile.Finding{
			outdated(
				"node01",
			), outdated("node02"), leaked("node03"), outdated("node04"), leaked("node04"), leaked("node05"),
			{
				Node:   "node06",
				Kind:   reconcile.Orphan,
				Detail: "the cloud has an instance of this cluster that Terraform does not know: 1234",
				Server: "1234",
				Fix:    reconcile.Delete,
			},
			{
				Node:   "node07",
				Kind:   reconcile.Missing,
				Detail: "it is persistent and has no instance",
				Fix:    reconcile.Enlarge,
			},
			{
				Node:   "node08",
				Kind:   reconcile.PowersUp,
				Detail: "Slurm waits for it, but there is no request for it",
				Fix:    reconcile.Resume,
			},
			{Node: "node12", Kind: reconcile.Unadopted, Detail: "Slurm uses its instance", Fix: reconcile.Resume},
			{
				Node:   "node13",
				Kind:   reconcile.LeakedPort,
				Detail: "no server uses this port of the cluster, and Terraform does not know it: 5678",
				Port:   "5678",
				Fix:    reconcile.Delete,
			},
			{Node: "node09", Kind: reconcile.Tainted, Detail: "its instance is tainted in Terraform's state"},
		},
		Busy: reconcile.Busy{Nodes: nodeset.Of("node10", "node11")},
		Seen: snapshot.Snapshot{Missing: map[snapshot.System]string{snapshot.Cloud: "no route to host"}},
	})
	var b strings.Builder
	if err := report.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "reconcile.txt", b.String())
}

func TestFixedForProgramsAndPeople(t *testing.T) {
	orphan := reconcile.Finding{Node: "node06", Server: "1234", Fix: reconcile.Delete}
	down := reconcile.Finding{Node: "node07", Fix: reconcile.HandBack}
	port := reconcile.Finding{Node: "node08", Kind: reconcile.LeakedPort, Port: "5678", Fix: reconcile.Delete}
	for _, tc := range []struct {
		fixed       Fixed
		json, words string
	}{
		{Fixed{orphan, true}, `{"node":"node06","server":"1234","removed":true}`, "instance 1234 of node06: removed"},
		{Fixed{port, false}, `{"node":"node08","port":"5678","removed":false}`, "port 5678 of node08: not removed"},
		{Fixed{down, false}, `{"node":"node07","handed_back":false}`, "node07: not handed back to Slurm"},
	} {
		text, err := json.Marshal(tc.fixed)
		if string(text) != tc.json || err != nil || tc.fixed.String() != tc.words {
			t.Errorf("%s (%v), %q", text, err, tc.fixed)
		}
	}
}
