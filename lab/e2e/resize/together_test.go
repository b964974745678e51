package resize_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	reconfiguring "github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestNodesReimageTogether makes eight slurmd make requests at once, each for its own node; `make matrix` has sixteen.
func TestNodesReimageTogether(t *testing.T) {
	resizesBack(t)
	many := 8
	if generation.Full() {
		many = 16
	}
	if out, code := lab.Call(t, "enlarge", "wide", "--to", fmt.Sprint(many)); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	var nodes []string
	for i := range many {
		nodes = append(nodes, fmt.Sprintf("w%02d", i+1))
	}
	before := lab.Identities(t, nodes...)
	last := lab.LastRequest(t).ID
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", strings.Join(nodes, ","))
	for _, node := range nodes {
		if after := lab.AwaitRenewed(t, node, before[node]); after.ID == before[node].ID {
			t.Errorf("%s has its old instance", node)
		}
	}
	requests, applies, plays := carriedSince(t, last)
	t.Logf("%d requests: %d applies, %d runs of the playbooks", requests, applies, plays)
	if requests != many || applies > 3 || plays > 3 {
		t.Errorf("%d requests took %d applies and %d runs of the playbooks", requests, applies, plays)
	}
	lab.AssertTerraformIsClean(t)
	if out, code := lab.Call(t, "shrink", "wide", "--to", "0"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitQuiet(t)
}

// carriedSince counts the updates since a request, and the runs of Terraform and Ansible that served them. A run that
// serves several plans has an event with the same time in each.
func carriedSince(t *testing.T, last reconfiguring.RequestID) (requests, applies, plays int) {
	t.Helper()
	log := lab.Journal(t)
	all, err := log.Requests(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]map[time.Time]bool{"Terraform": {}, "Ansible": {}}
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
			program, _, _ := strings.Cut(e.Message, ": ")
			if of := runs[program]; of != nil && e.Node == "" {
				of[e.Time] = true
			}
		}
	}
	return requests, len(runs["Terraform"]), len(runs["Ansible"])
}
