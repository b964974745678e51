package e2e_test

import (
	"fmt"
	"testing"

	reconfiguring "github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// TestSixteenNodesReimageTogether has sixteen slurmds call at once, each for its own node.
func TestSixteenNodesReimageTogether(t *testing.T) {
	resizesBack(t)
	if out, code := reconfigure(t, "enlarge", "wide", "--to", "16"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	var nodes []string
	for i := range 16 {
		nodes = append(nodes, fmt.Sprintf("w%02d", i+1))
	}
	before := identities(t, nodes...)
	last := lastRequest(t)
	onControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "w[01-16]")
	for _, node := range nodes {
		if after := awaitRenewed(t, node, before[node]); after.ID == before[node].ID {
			t.Errorf("%s has its old instance", node)
		}
	}
	requests, applies, plays := carriedSince(t, last)
	t.Logf("%d requests: %d applies, %d runs of the playbooks", requests, applies, plays)
	if requests != 16 || applies > 3 || plays > 3 {
		t.Errorf("%d requests took %d applies and %d runs of the playbooks", requests, applies, plays)
	}
	assertTerraformIsClean(t)
	if out, code := reconfigure(t, "shrink", "wide", "--to", "0"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	awaitQuiet(t)
}

func openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	log, err := journal.Open(t.Context(), lab.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// lastRequest is the newest request that the journal has.
func lastRequest(t *testing.T) reconfiguring.RequestID {
	t.Helper()
	newest, err := openJournal(t).Requests(t.Context(), 1)
	if err != nil || len(newest) != 1 {
		t.Fatalf("%v, error %v", newest, err)
	}
	return newest[0].ID
}

// carriedSince counts the updates since a request, and the batches that carried them as far as Terraform and Ansible.
func carriedSince(t *testing.T, last reconfiguring.RequestID) (requests, applies, plays int) {
	t.Helper()
	log := openJournal(t)
	all, err := log.Requests(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	reached := map[reconfiguring.Phase]map[int64]bool{reconfiguring.PhaseApply: {}, reconfiguring.PhaseConfigure: {}}
	for _, r := range all {
		if r.ID <= last || r.Mode != reconfiguring.Update {
			continue
		}
		requests++
		events, err := log.Events(t.Context(), r.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if batches := reached[e.Phase]; batches != nil && e.Level == reconfiguring.Begun {
				batches[e.Batch] = true
			}
		}
	}
	return requests, len(reached[reconfiguring.PhaseApply]), len(reached[reconfiguring.PhaseConfigure])
}
