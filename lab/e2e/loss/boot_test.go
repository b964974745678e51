package loss_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestKilledAtEachEventOfABoot kills the worker of a resume at each kind of event that one writes: at two of them
// during each boot, half of the kinds apart; only `make matrix` does so in every boot. No node is lost: its instance is made once and not rebooted, although a
// reboot would clear the console log that shows its host key, and its job is not requeued. The log has the seconds that
// the kills cost. Terraform and Ansible keep running, as after a crash of the worker; TestKilledInEveryPhase kills them
// too.
func TestKilledAtEachEventOfABoot(t *testing.T) {
	lab.AwaitQuiet(t)
	nodes := harness.Nodes(lab.Declaration.NodeGroups[1], 2, 12)
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
	// A worker that continues a boot may write no event of the second kind. That kind then has a boot of its own.
	boots, missed := inPairs(kinds), 0
	if !generation.Full() {
		boots = everySecond(boots)
	}
	for ; len(boots) > 0; boots = boots[1:] {
		if len(nodes) == 0 {
			t.Fatalf("no node is left for the kills at %q", boots)
		}
		node, at := nodes[0], boots[0]
		nodes = nodes[1:]
		before := lab.Cloud.Calls()
		w := resume(node)
		for i, kind := range at {
			if i > 0 && !w.writesBeforeItEnds(kind) {
				boots, missed = append(boots, []string{kind}), missed+1
				at = at[:i]
				break
			}
			w.reaches(kind, func() bool { return slices.Contains(w.kinds(), kind) })
			lab.KillWorkersAlone(t)
			for _, e := range w.events() {
				w.after = e.ID
			}
			lab.StartWorker(t)
		}
		took := w.took()
		t.Logf("killed at %q: %.1f s, %.1f s lost", at, took.Seconds(), (took - undisturbed).Seconds())
		for call, want := range map[string]int{
			"POST /compute/v2.1/servers": 1, "POST /compute/v2.1/servers/{id}/action reboot": 0,
			"DELETE /compute/v2.1/servers/{id}": 0,
		} {
			if n := lab.Cloud.Calls()[call] - before[call]; n != want {
				t.Errorf("killed at %q: %d calls %q, want %d", at, n, call, want)
			}
		}
		lab.AwaitJob(t, jobs[node], "RUNNING")
		lab.AssertNeverRestarted(t, jobs[node])
	}
	t.Logf("%d kinds had a boot of their own", missed)
	lab.AssertTerraformIsClean(t)
	for node, id := range jobs {
		lab.LetGo(t, node)
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertAllIsWell(t)
}

// inPairs pairs each of the first half of the kinds with one of the second half.
func inPairs(kinds []string) (pairs [][]string) {
	half := (len(kinds) + 1) / 2
	for i, kind := range kinds[:half] {
		pair := []string{kind}
		if half+i < len(kinds) {
			pair = append(pair, kinds[half+i])
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// everySecond returns the first, the third and so on.
func everySecond(boots [][]string) (some [][]string) {
	for i, at := range boots {
		if i%2 == 0 {
			some = append(some, at)
		}
	}
	return some
}

// writesBeforeItEnds waits until the request has a new event of a kind, or its outcome. It returns false if it has the
// outcome.
func (w *watched) writesBeforeItEnds(kind string) (writes bool) {
	w.Helper()
	ended := false
	w.reaches(kind+" or the outcome", func() bool {
		var err error
		if writes = slices.Contains(w.kinds(), kind); writes {
			return true
		}
		if _, ended, err = w.log.Outcome(w.Context(), w.id); err != nil {
			w.Fatal(err)
		}
		return ended
	})
	return writes
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
