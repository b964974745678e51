package loss_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// TestKilledInEveryPhase kills several workers while the node of one job is created, each in another phase, with
// Terraform and Ansible. Each time the next worker continues, and Slurm notices nothing.
func TestKilledInEveryPhase(t *testing.T) {
	names := hang(t, labcloud.Fault{Call: "GET /image/v2/images"})
	id := lab.Job(t, "--nodelist=w01", harness.Until)
	w := awaitRequest(t, reconfigure.Resume, "w01")

	w.killWhen("it plans", names.struck)
	names.clear()
	lab.StartWorker(t)
	w.killWhen("Terraform plans", w.has(reconfigure.PhaseApply, "w01", ""))
	lab.StartWorker(t)
	w.killWhen("Terraform makes the instance", func() bool { _, there := lab.Server("w01"); return there })
	console := hang(t, labcloud.Fault{Call: "POST servers/{id}/action os-getConsoleOutput", Server: "w01"})
	lab.StartWorker(t)
	w.killWhen("the instance boots", console.struck)
	console.clear()
	lab.StartWorker(t)
	w.killWhen("Ansible configures it", w.has(reconfigure.PhaseConfigure, "w01", "Wait until Ansible can log in"))
	lab.StartWorker(t)
	w.reaches("Ansible configures it once more", w.has(reconfigure.PhaseConfigure, "w01", ""))
	lists, one := hang(t, labcloud.Fault{Call: "GET servers/detail"}), hang(t, labcloud.Fault{Call: "GET servers/{id}"})
	w.killWhen("it is verified", w.has(reconfigure.PhaseVerify, "w01", ""))
	lists.clear()
	one.clear()
	lab.StartWorker(t)

	w.ends()
	lab.AwaitJob(t, id, "RUNNING")
	if n := instances("w01"); n != 1 {
		t.Errorf("w01 has %d instances", n)
	}
	lab.AssertTerraformIsClean(t)

	removed := calls("DELETE /compute/v2.1/servers/{id}")
	lab.LetGo(t, "w01")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	w = awaitRequest(t, reconfigure.Suspend, "w01")
	w.killWhen("Terraform removes the instance", removed)
	lab.StartWorker(t)
	w.ends()
	lab.AssertAllIsWell(t)
}

// TestKilledWhileItReports kills the worker after a failed node is DOWN in Slurm, but before its instance is removed.
func TestKilledWhileItReports(t *testing.T) {
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "w02"})
	removed := calls("DELETE /compute/v2.1/servers/{id}")
	id := lab.Job(t, "--nodelist=w02", "--wrap=true")
	w := awaitRequest(t, reconfigure.Resume, "w02")
	w.killWhen("the rest of the node is removed", removed)
	if state, reason := lab.State(t, "w02"), lab.Reason(t, "w02"); !strings.Contains(state, "DOWN") ||
		!strings.HasPrefix(reason, "reconfigure: capacity: ") {
		t.Errorf("when the worker is killed, w02 is %s, %q", state, reason)
	}
	lab.Hurry(t, id)
	lab.StartWorker(t)
	w.ends()
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertAllIsWell(t)
}

// TestKilledWhileItRebuilds kills the worker of an update. The caller that follows its request starts another one.
func TestKilledWhileItRebuilds(t *testing.T) {
	control, addresses := lab.Identities(t, cluster.ControlNodeName), addressesOf("node01")
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	rebuilds := calls("POST /compute/v2.1/servers/{id}/action rebuild")
	update := lab.Reconfigure(t.Context(), "update", "node01")
	var said strings.Builder
	update.Stdout, update.Stderr = &said, &said
	if err := update.Start(); err != nil {
		t.Fatal(err)
	}
	w := awaitRequest(t, reconfigure.Update, "node01")
	w.killWhen("Terraform rebuilds the instance", rebuilds)
	if err := update.Wait(); err != nil {
		t.Errorf("%v\n%s\n%s", err, said.String(), lab.WorkerLogs())
	}
	w.ends()
	lab.AwaitIdle(t, "node01")
	// It is unknown how far the rebuild came, so the node may have another instance. It keeps its port.
	if diff := cmp.Diff(addresses, addressesOf("node01")); diff != "" || instances("node01") != 1 {
		t.Errorf("node01 has %d instances; addresses (-before +after):\n%s", instances("node01"), diff)
	}
	if diff := cmp.Diff(control, lab.Identities(t, cluster.ControlNodeName)); diff != "" {
		t.Errorf("the control node changed (-before +after):\n%s", diff)
	}
	if image := lab.On(t, "node01", "cat", "/etc/image-release"); image != cluster.ImageV2 {
		t.Errorf("node01 has image %s", image)
	}
	id := lab.Job(t, "--nodelist=node01", "--wrap=true")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertAllIsWell(t)
}

func instances(node string) int {
	n := 0
	for _, s := range lab.Cloud.Servers() {
		if s.Name == node {
			n++
		}
	}
	return n
}

func addressesOf(node string) []string {
	s, _ := lab.Server(node)
	var all []string
	for _, a := range s.Addresses {
		all = append(all, a.String())
	}
	return all
}

// calls returns a function that reports whether the cloud has received such a call since now.
func calls(call string) func() bool {
	before := lab.Cloud.Calls()[call]
	return func() bool { return lab.Cloud.Calls()[call] > before }
}

// hung is a call that hangs until its fault is cleared.
type hung struct {
	t  *testing.T
	id int
}

func hang(t *testing.T, f labcloud.Fault) hung {
	t.Helper()
	f.Kind = labcloud.Hang
	f.Count = 1000
	id, err := lab.Cloud.Faults().Add(f)
	if err != nil {
		t.Fatal(err)
	}
	h := hung{t, id}
	t.Cleanup(h.clear)
	return h
}

func (h hung) struck() bool {
	return slices.ContainsFunc(lab.Cloud.Faults().List(),
		func(f labcloud.Fault) bool { return f.ID == h.id && f.Hits > 0 })
}

func (h hung) clear() { lab.Cloud.Faults().Clear(h.id) }

// watched is a request whose events the test reads from the journal.
type watched struct {
	*testing.T
	log   *journal.Journal
	id    reconfigure.RequestID
	after int64 // the newest event at the last kill
}

// awaitRequest waits for the request of a mode for a node.
func awaitRequest(t *testing.T, mode reconfigure.Mode, node string) *watched {
	t.Helper()
	w := &watched{T: t, log: lab.Journal(t)}
	w.reaches(fmt.Sprintf("there is a request to %s %s", mode, node), func() bool {
		pending, err := w.log.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(pending,
			func(r reconfigure.Request) bool { return r.Mode == mode && r.Nodes.Contains(node) })
		if i >= 0 {
			w.id = pending[i].ID
		}
		return i >= 0
	})
	return w
}

// has reports whether there has been such an event since the last kill.
func (w *watched) has(phase reconfigure.Phase, node, words string) func() bool {
	return func() bool {
		return slices.ContainsFunc(w.events(), func(e reconfigure.Event) bool {
			return e.Phase == phase && e.Node == node && strings.Contains(e.Message, words)
		})
	}
}

func (w *watched) events() []reconfigure.Event {
	w.Helper()
	events, err := w.log.Events(w.Context(), w.id, w.after)
	if err != nil {
		w.Fatal(err)
	}
	return events
}

// reaches waits for a condition, and polls more often than Eventually, since a phase may be short.
func (w *watched) reaches(what string, come func() bool) {
	w.Helper()
	for deadline := time.Now().Add(harness.JobPatience); !come(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not reached: %s\n%s\n%s", what, lab.SlurmLogs(), lab.WorkerLogs())
		}
	}
}

// killWhen kills the worker when a condition is true. The request must not have its outcome then.
func (w *watched) killWhen(moment string, come func() bool) {
	w.Helper()
	w.reaches(moment, come)
	lab.KillWorkers(w.T)
	var last string
	for _, e := range w.events() {
		w.after = e.ID
		last = fmt.Sprintf("%s of %s %s %s", e.Phase, e.Node, e.Level, e.Message)
	}
	w.Logf("killed when %s; the last in the journal: %s", moment, last)
	if _, ended, err := w.log.Outcome(w.Context(), w.id); ended || err != nil {
		w.Errorf("killed when %s: the request had its outcome before (%v)", moment, err)
	}
}

// ends waits for the outcome, which must be the normal one.
func (w *watched) ends() {
	w.Helper()
	lab.Eventually(w.T, harness.UpdatePatience, func() (bool, string) {
		outcome, ended, err := w.log.Outcome(w.Context(), w.id)
		if ended && outcome.Code != reconfigure.CodeDone {
			w.Fatalf("request %s ends as %+v\n%s", w.id, outcome, lab.WorkerLogs())
		}
		return ended, fmt.Sprintf("request %s has no outcome (%v)", w.id, err)
	})
}
