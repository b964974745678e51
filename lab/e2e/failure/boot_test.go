package failure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestKilledAtEachEventOfABoot kills the worker of a resume at each kind of event that one writes, each time for
// another node. No node is lost: its instance is made once and not rebooted, although a reboot would clear the console
// log that shows its host key, and its job is not requeued. The log has the seconds that each kill costs. Terraform and
// Ansible keep running, as after a crash of the worker; TestKilledInEveryPhase kills them too.
func TestKilledAtEachEventOfABoot(t *testing.T) {
	lab.AwaitQuiet(t)
	nodes := []string{"w02", "w03", "w04", "w05", "w06", "w07", "w08", "w09", "w10", "w11", "w12"}
	jobs := map[string]string{} // by node
	resume := func(node string) *watched {
		jobs[node] = lab.Job(t, "--nodelist="+node, harness.Until)
		return awaitRequest(t, reconfigure.Resume, node)
	}
	w := resume("w01")
	undisturbed := w.took()
	kinds := w.kinds()
	if last := len(kinds) - 1; kinds[last] == "verify done" {
		kinds = kinds[:last] // the worker may end with it, before it can be killed
	}
	t.Logf("undisturbed: %.1f s, %d kinds of events: %s", undisturbed.Seconds(), len(kinds), strings.Join(kinds, ", "))
	if len(kinds) > len(nodes) {
		t.Fatalf("%d kinds of events, and nodes for %d", len(kinds), len(nodes))
	}
	for i, kind := range kinds {
		node := nodes[i]
		before := lab.Cloud.Calls()
		w := resume(node)
		w.reaches(kind, func() bool { return slices.Contains(w.kinds(), kind) })
		lab.KillWorkersAlone(t)
		_, ended, err := w.log.Outcome(t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		lab.StartWorker(t)
		took := w.took()
		t.Logf("killed at %q: %.1f s, %.1f s lost (outcome before the kill: %t)",
			kind, took.Seconds(), (took - undisturbed).Seconds(), ended)
		for call, want := range map[string]int{
			"POST /compute/v2.1/servers": 1, "POST /compute/v2.1/servers/{id}/action reboot": 0,
			"DELETE /compute/v2.1/servers/{id}": 0,
		} {
			if n := lab.Cloud.Calls()[call] - before[call]; n != want {
				t.Errorf("killed at %q: %d calls %q, want %d", kind, n, call, want)
			}
		}
		lab.AwaitJob(t, jobs[node], "RUNNING")
		lab.AssertNeverRestarted(t, jobs[node])
	}
	lab.AssertTerraformIsClean(t)
	for node, id := range jobs {
		lab.LetGo(t, node)
		lab.AwaitJob(t, id, "COMPLETED")
	}
	assertAllIsWell(t)
}

// kinds returns the kinds of the request's events in the order of their first occurrence: phase, level and, for a note,
// its owner.
func (w *watched) kinds() []string {
	w.Helper()
	var all []string
	for _, e := range w.events() {
		kind := fmt.Sprintf("%s %s", e.Phase, e.Level)
		if e.Node == "" {
			kind += " of the run"
		}
		if !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return all
}

// took waits for the normal outcome, and returns the time from the request to it.
func (w *watched) took() time.Duration {
	w.Helper()
	w.ends()
	outcome, _, err := w.log.Outcome(w.Context(), w.id)
	if err != nil {
		w.Fatal(err)
	}
	request, _, err := w.log.Request(w.Context(), w.id)
	if err != nil {
		w.Fatal(err)
	}
	return outcome.Finished.Sub(request.Submitted)
}
