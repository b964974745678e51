package grow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	reconfiguring "github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestIdleNodesAreStopped runs three jobs. The node is stopped after the first, started without playbooks for the
// second, and made anew for the third, since another image was declared meanwhile.
func TestIdleNodesAreStopped(t *testing.T) {
	const burst = 1
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[burst].WhenIdle = "stop" })
	job := func() (took time.Duration) {
		t.Helper()
		began := time.Now()
		id := lab.Job(t, "--nodelist=b01", "--wrap=true")
		lab.AwaitJob(t, id, "COMPLETED")
		lab.AssertNeverRestarted(t, id)
		return time.Since(began)
	}
	made := job()
	first := awaitStopped(t, "b01")
	lab.AssertTerraformIsClean(t)
	if out := lab.Do(t, "status"); !strings.Contains(out, "SHUTOFF") {
		t.Errorf("the status does not show it:\n%s", out)
	}
	if out, _ := lab.Call(t, "reconcile"); strings.Contains(out, "b01") {
		t.Errorf("a stopped node is a finding:\n%s", out)
	}

	started := job()
	if s, _ := lab.Server("b01"); s.ID != first {
		t.Errorf("the job had server %s, and not %s", s.ID, first)
	}
	phases, said := lastResume(t, "b01")
	if slices.Contains(phases, reconfiguring.PhaseConfigure) || !slices.Contains(phases, reconfiguring.PhaseVerify) {
		t.Errorf("its start went through %v:\n%s", phases, strings.Join(said, "\n"))
	}
	t.Logf("a job on a node that is made took %s, on one that is started %s", made, started)
	if again := awaitStopped(t, "b01"); again != first {
		t.Errorf("the stopped server is %s, and not %s", again, first)
	}

	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[burst].Image = cluster.ImageV2 })
	job()
	if s, _ := lab.Server("b01"); s.ID == first || s.Image != cluster.ImageID(cluster.ImageV2) {
		t.Errorf("after another image was declared the server is %+v", s)
	}
	awaitStopped(t, "b01")
	lab.Do(t, "update", "--reimage", "b01") // removes it: the next resume makes a new one
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

// awaitStopped waits until a node is powered down and its instance stopped, and returns the instance's id.
func awaitStopped(t *testing.T, node string) (id string) {
	t.Helper()
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		state, err := lab.NodeState(node)
		s, _ := lab.Server(node)
		id = s.ID
		down := strings.TrimSuffix(state, "+NOT_RESPONDING") == "IDLE+CLOUD+POWERED_DOWN"
		return down && s.Status == "SHUTOFF", fmt.Sprintf("%s is %s, and its server %s (%v)", node, state, s.Status, err)
	})
	lab.AwaitNothingWaits(t)
	return id
}

// lastResume returns the phases of a node in its last resume, and the notes.
func lastResume(t *testing.T, node string) (phases []reconfiguring.Phase, said []string) {
	t.Helper()
	log := lab.Journal(t)
	requests, err := log.Requests(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests { // newest first
		if r.Mode != reconfiguring.Resume || !r.Nodes.Contains(node) {
			continue
		}
		events, err := log.Events(t.Context(), r.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Node == node && e.Level == reconfiguring.Begun {
				phases = append(phases, e.Phase)
			}
			said = append(said, string(e.Phase)+": "+e.Message)
		}
		return phases, said
	}
	t.Fatalf("no resume of %s", node)
	return nil, nil
}
