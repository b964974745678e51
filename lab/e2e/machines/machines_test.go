package machines_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestJobsHaveMachinesSwitchedOn runs a job on each of two machines that were never in service. When they are idle, the
// first one shuts down by itself. Of the second one the command that switches it on hangs once, its shutdown by SSH
// fails, and so does twice the command that switches it off.
func TestJobsHaveMachinesSwitchedOn(t *testing.T) {
	room.order(t, "on node02", fault{hangs: true, left: 1})
	jobs := map[string]string{}
	for _, node := range []string{"node01", "node02"} {
		jobs[node] = lab.Job(t, "--nodelist="+node, harness.Until)
	}
	for _, id := range jobs {
		lab.AwaitJob(t, id, "RUNNING")
		lab.AssertNeverRestarted(t, id)
	}
	room.order(t, "off node02", fault{left: 2})
	lab.On(t, "node02", "mv", "/sbin/poweroff", "/sbin/poweroff.away")
	for node := range jobs {
		lab.LetGo(t, node)
	}
	lab.AwaitQuiet(t)
	for node, want := range map[string][]string{
		"node01": {"on"}, "node02": {"on", "on", "off", "off", "off"},
	} {
		if calls := room.of(node); !slices.Equal(calls, want) {
			t.Errorf("the commands for %s were %q, want %q", node, calls, want)
		}
	}
	if out := lab.Do(t, "status"); strings.Count(out, "SHUTOFF") < 2 {
		t.Errorf("the status does not show them:\n%s", out)
	}
	if out, code := lab.Call(t, "reconcile"); strings.Contains(out, "node0") {
		t.Errorf("a machine that is off is a finding (%d):\n%s", code, out)
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

// TestOtherCalls has a machine come for a job without playbooks, makes it persistent, reboots it, asks for what machines
// that exist do not have, and gives it back.
func TestOtherCalls(t *testing.T) {
	id := lab.Job(t, "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	if phases := lastResume(t); slices.Contains(phases, reconfigure.PhaseConfigure) ||
		!slices.Contains(phases, reconfigure.PhaseVerify) {
		t.Errorf("its start went through %v", phases)
	}
	lab.Do(t, "enlarge", "standard", "--to", "1")
	lab.AwaitIdle(t, "node01")
	before := len(room.of("node01"))
	if out := lab.Do(t, "plan", "update", "node01"); !strings.Contains(out, "reboot") {
		t.Errorf("plan:\n%s", out)
	}
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if calls := room.of("node01")[before:]; !slices.Equal(calls, []string{"on"}) {
		t.Errorf("an update called %q", calls)
	}
	for call, want := range map[string]string{
		"update --reimage node01":        "keeps what is installed",
		"update --image v2 node01":       "keeps what is installed",
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
	lab.AwaitIdle(t, "node01")
	lab.Do(t, "shrink", "standard", "--to", "0")
	lab.AwaitQuiet(t)
}
