package machines_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestJobsHaveTheirMachineSwitchedOn runs two jobs on a machine that was never in service. The first time, the command
// that switches it on hangs once, and it shuts down by itself when it is idle. The second time it needs no playbook;
// its shutdown by SSH fails, and the command that switches it off fails twice. Requests for a persistent machine come
// meanwhile.
func TestJobsHaveTheirMachineSwitchedOn(t *testing.T) {
	room.order(t, "on node02", fault{hangs: true, left: 1})
	first := job(t)
	lab.LetGo(t, "node02")
	rebootAndRefuse(t)
	lab.AwaitJob(t, first, "COMPLETED")
	lab.AwaitQuiet(t)
	if calls, want := room.of("node02"), []string{"on", "on"}; !slices.Equal(calls, want) {
		t.Errorf("the first job had %q called, want %q", calls, want)
	}
	if out := lab.Do(t, "status"); !strings.Contains(out, "SHUTOFF") {
		t.Errorf("the status does not show it:\n%s", out)
	}
	if out, code := lab.Call(t, "reconcile"); strings.Contains(out, "node02") {
		t.Errorf("a machine that is off is a finding (%d):\n%s", code, out)
	}

	job(t)
	if phases := lastResume(t); slices.Contains(phases, reconfigure.PhaseConfigure) ||
		!slices.Contains(phases, reconfigure.PhaseVerify) {
		t.Errorf("its start went through %v", phases)
	}
	room.order(t, "off node02", fault{left: 2})
	lab.On(t, "node02", "mv", "/sbin/poweroff", "/sbin/poweroff.away")
	lab.LetGo(t, "node02")
	lab.Do(t, "shrink", "standard", "--to", "0")
	lab.AwaitQuiet(t)
	if calls, want := room.of("node02")[2:], []string{"on", "off", "off", "off"}; !slices.Equal(calls, want) {
		t.Errorf("the second job had %q called, want %q", calls, want)
	}
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		state, err := lab.NodeState("node01")
		return strings.Contains(state, "POWERED_DOWN") && !room.runs("node01"), fmt.Sprint(state, err)
	})
}

// job returns a job that runs on node02 until the test ends it, and checks that it was not requeued.
func job(t *testing.T) (id string) {
	t.Helper()
	id = lab.Job(t, "--nodelist=node02", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	lab.AssertNeverRestarted(t, id)
	return id
}

// rebootAndRefuse reboots a persistent machine, and requests actions that existing machines do not support.
func rebootAndRefuse(t *testing.T) {
	t.Helper()
	before := len(room.of("node01"))
	lab.Do(t, "update", "node01")
	if calls := room.of("node01")[before:]; !slices.Equal(calls, []string{"on"}) {
		t.Errorf("an update called %q", calls)
	}
	for call, want := range map[string]string{
		"update --reimage node01":        "keeps its installation",
		"image create node01 --name new": "no image can be made",
	} {
		out, code := lab.Call(t, strings.Fields(call)...)
		if code == 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%s: exit code %d\n%s", call, code, out)
		}
	}
	if out, _ := lab.Call(t, "check"); strings.Contains(out, "terraform") || strings.Contains(out, "flavor") {
		t.Errorf("check:\n%s", out)
	}
}

// lastResume returns the phases of the last resume.
func lastResume(t *testing.T) (phases []reconfigure.Phase) {
	t.Helper()
	log := lab.Journal(t)
	requests, err := log.Requests(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(requests, func(r reconfigure.Request) bool { return r.Mode == reconfigure.Resume })
	if i < 0 {
		t.Fatal("there was no resume")
	}
	events, err := log.Events(t.Context(), requests[i].ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Node != "" && e.Level == reconfigure.Begun {
			phases = append(phases, e.Phase)
		}
	}
	return phases
}
