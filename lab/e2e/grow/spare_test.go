package grow_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestASpareNodeIsUpBeforeItsJob declares a spare node. It comes up without a job and stays beyond SuspendTime, the
// next job starts on it at once, and another node comes up behind it. Beyond the declared hours the nodes go.
func TestASpareNodeIsUpBeforeItsJob(t *testing.T) {
	const burst = 1
	lab.AwaitQuiet(t)
	lab.DeployAfter(t)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[burst].Spare = 1
		d.Reconfigure = maps.Clone(d.Reconfigure)
		d.Reconfigure["reconcile_minutes"] = 5 // so that its worker stays
	})
	lab.Do(t, "deploy")
	lab.AwaitState(t, "b01", "IDLE+CLOUD")
	first, _ := lab.Server("b01")

	// Its suspend would be due SuspendTime after it came up.
	suspend := time.Duration(lab.Declaration.Slurm.SuspendTime) * time.Second
	since := idleSince(t, "b01")
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		idle := time.Since(since)
		return idle > 2*suspend, fmt.Sprintf("b01 is idle for %s", idle)
	})
	if s, _ := lab.Server("b01"); s.ID != first.ID || lab.State(t, "b01") != "IDLE+CLOUD" {
		t.Errorf("after twice SuspendTime b01 is %s with server %s, was %s\n%s", lab.State(t, "b01"), s.ID, first.ID,
			lab.SlurmLogs())
	}
	if state := lab.State(t, "b02"); !strings.Contains(state, "POWERED_DOWN") {
		t.Errorf("a second node is up: b02 is %s", state)
	}

	began := time.Now()
	job := lab.Job(t, "--constraint=burst", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	took := time.Since(began)
	if node, err := lab.JobField(job, "NodeList"); err != nil || node != "b01" {
		t.Errorf("the job is on %s (%v)", node, err)
	}
	lab.AwaitState(t, "b02", "IDLE+CLOUD")
	t.Logf("the job started after %s on the spare node, and the next was there after %s", took, time.Since(began))
	lab.AssertNeverRestarted(t, job)
	if s, _ := lab.Server("b01"); s.ID != first.ID {
		t.Errorf("the job runs on server %s, not on %s", s.ID, first.ID)
	}
	number, _ := strconv.ParseInt(job, 10, 64)
	requests, err := lab.Journal(t).RequestsFor(t.Context(), number)
	if err != nil || len(requests) > 0 {
		t.Errorf("the job has the requests %v (%v)", requests, err)
	}

	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[burst].SpareHours = time.Now().AddDate(0, 0, 3).Weekday().String()[:3] + " 00:00-24:00"
	})
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, job, "COMPLETED")
	if report := lab.Do(t, "report", "--since", "1h"); !strings.Contains(report, "WAIT SAVED") {
		t.Errorf("the report has no waiting that was saved:\n%s", report)
	}
	for _, node := range []string{"b01", "b02"} {
		lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
			state, err := lab.NodeState(node)
			return strings.HasPrefix(state, "IDLE+CLOUD+POWERED_DOWN"), fmt.Sprintf("%s is %s (%v)", node, state, err)
		})
	}
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[burst].Spare, d.NodeGroups[burst].SpareHours = 0, ""
		d.Reconfigure = maps.Clone(d.Reconfigure)
		delete(d.Reconfigure, "reconcile_minutes") // so that the worker ends
	})
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

// idleSince returns when a node came up, as Slurm has it.
func idleSince(t *testing.T, node string) time.Time {
	t.Helper()
	for word := range strings.FieldsSeq(lab.OnControl(t, "scontrol", "show", "node", node)) {
		if when, ok := strings.CutPrefix(word, "LastBusyTime="); ok {
			at, err := time.ParseInLocation("2006-01-02T15:04:05", when, time.Local)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("Slurm does not say since when %s is idle", node)
	return time.Time{}
}
