package machines_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestAJobHasItsMachineSwitchedOn runs a job on a machine that was never in service, which shuts down by itself when it
// is idle.
func TestAJobHasItsMachineSwitchedOn(t *testing.T) {
	_, before := room.since(0)
	id := lab.Job(t, "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	lab.AwaitQuiet(t)
	if calls, _ := room.since(before); !slices.Equal(calls, []string{"on node01"}) {
		t.Errorf("the commands were %q", calls)
	}
	if out := lab.Do(t, "status"); !strings.Contains(out, "SHUTOFF") {
		t.Errorf("the status does not show it:\n%s", out)
	}
	if out, code := lab.Call(t, "reconcile"); strings.Contains(out, "node01") {
		t.Errorf("a machine that is off is a finding (%d):\n%s", code, out)
	}
}

// TestCommandsThatHangOrFail has a job wait for a machine whose first command hangs. The machine needs no playbook then.
// Its shutdown by SSH fails, and so do the first commands after it.
func TestCommandsThatHangOrFail(t *testing.T) {
	_, before := room.since(0)
	room.order(t, "on node01", fault{hangs: true, left: 1})
	id := lab.Job(t, "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	lab.AssertNeverRestarted(t, id)
	if phases := lastResume(t); slices.Contains(phases, reconfigure.PhaseConfigure) ||
		!slices.Contains(phases, reconfigure.PhaseVerify) {
		t.Errorf("its start went through %v", phases)
	}
	lab.On(t, "node01", "mv", "/sbin/poweroff", "/sbin/poweroff.away")
	room.order(t, "off node01", fault{left: 2})
	lab.LetGo(t, "node01")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AwaitQuiet(t)
	calls, _ := room.since(before)
	off := slices.Index(calls, "off node01")
	if off != 2 || len(calls) < 5 || slices.Contains(calls[off:], "on node01") {
		t.Errorf("the commands were %q", calls)
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

// TestOtherCalls makes a machine persistent, reboots it, asks for what machines that exist do not have, and gives it
// back.
func TestOtherCalls(t *testing.T) {
	lab.Do(t, "enlarge", "standard", "--to", "1")
	lab.AwaitIdle(t, "node01")
	_, before := room.since(0)
	if out := lab.Do(t, "plan", "update", "node01"); !strings.Contains(out, "reboot") {
		t.Errorf("plan:\n%s", out)
	}
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if calls, _ := room.since(before); !slices.Contains(calls, "on node01") {
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
