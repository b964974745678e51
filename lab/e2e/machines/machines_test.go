package machines_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// job runs a job on node01, which must not be requeued, and waits until the machine is off again. It returns the
// commands that were called meanwhile.
func job(t *testing.T) (calls []string) {
	t.Helper()
	_, before := room.since(0)
	id := lab.Job(t, "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	lab.AwaitQuiet(t)
	calls, _ = room.since(before)
	return calls
}

// TestAJobHasItsMachineSwitchedOn runs a job on a machine that was never in service, and another one on the machine as
// it was configured then.
func TestAJobHasItsMachineSwitchedOn(t *testing.T) {
	if calls := job(t); !slices.Equal(calls, []string{"on node01"}) { // it shuts down by itself
		t.Errorf("the first job had %q called", calls)
	}
	_, before := room.since(0)
	id := lab.Job(t, "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	if out := lab.Do(t, "status"); !strings.Contains(out, "ACTIVE") {
		t.Errorf("the status does not show the machine:\n%s", out)
	}
	recap := lab.LastRecap(t)
	lab.LetGo(t, "node01")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AwaitQuiet(t)
	if calls, _ := room.since(before); !slices.Equal(calls, []string{"on node01"}) {
		t.Errorf("the second job had %q called; recap %v", calls, recap)
	}
	if out, code := lab.Call(t, "reconcile"); strings.Contains(out, "node01") {
		t.Errorf("a machine that is off is a finding (%d):\n%s", code, out)
	}
	if out := lab.Do(t, "status"); !strings.Contains(out, "SHUTOFF") {
		t.Errorf("the status does not show it:\n%s", out)
	}
}

// TestAnOffThatFails has the shutdown by SSH and the first calls of the command fail.
func TestAnOffThatFails(t *testing.T) {
	id := lab.Job(t, "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	lab.On(t, "node01", "rm", "/sbin/poweroff")
	room.order(t, "off node01", fault{left: 2})
	_, before := room.since(0)
	lab.LetGo(t, "node01")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AwaitQuiet(t)
	calls, _ := room.since(before)
	if want := []string{"off node01", "off node01", "off node01"}; !slices.Equal(calls, want) {
		t.Errorf("the commands were %q", calls)
	}
}

// TestAnOnThatHangs has the first call of the command hang: it is ended, and another one comes, while the job waits.
func TestAnOnThatHangs(t *testing.T) {
	room.order(t, "on node01", fault{hangs: true, left: 1})
	calls := job(t)
	if on := strings.Count(fmt.Sprint(calls), "on node01"); on != 2 {
		t.Errorf("the commands were %q", calls)
	}
}

// TestWhatIsRefused asks for what machines that exist do not have, and for a change of the size.
func TestWhatIsRefused(t *testing.T) {
	for _, tc := range []struct{ call, want string }{
		{"update --reimage node01", "keeps what is installed"},
		{"image create node01 --name v2", "no image can be made"},
	} {
		out, code := lab.Call(t, strings.Fields(tc.call)...)
		if code == 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), tc.want) {
			t.Errorf("%s: exit code %d\n%s", tc.call, code, out)
		}
	}
	if out, _ := lab.Call(t, "check"); strings.Contains(out, "Terraform") {
		t.Errorf("check:\n%s", out)
	}
}

// TestResize makes a machine persistent, reboots it, and gives it back.
func TestResize(t *testing.T) {
	lab.Do(t, "enlarge", "standard", "--to", "1")
	lab.AwaitIdle(t, "node01")
	_, before := room.since(0)
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if calls, _ := room.since(before); !slices.Contains(calls, "on node01") {
		t.Errorf("an update had %q called", calls)
	}
	lab.Do(t, "shrink", "standard", "--to", "0")
	lab.AwaitQuiet(t)
}
