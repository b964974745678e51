package resize_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// ages edits the journal so that the instances of nodes are ten days older.
func ages(t *testing.T, nodes ...string) {
	t.Helper()
	log := lab.Journal(t)
	release, ok, err := log.Acquire(t.Context())
	if err != nil || !ok {
		t.Fatalf("the lease: %v, error %v", ok, err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	lives, err := log.Lives(t.Context(), time.Unix(0, math.MaxInt64))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		i := slices.IndexFunc(lives, func(l reconfigure.Life) bool { return l.Node == node })
		if i < 0 {
			t.Fatalf("the journal has no instance of %s", node)
		}
		lives[i].Made = lives[i].Made.AddDate(0, 0, -10)
		if err := log.Record(t.Context(), reconfigure.Event{Node: node, Life: &lives[i]}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOldNodesAreMadeAnewAfterTheirJobs makes a cloud node with a job and an idle persistent node too old. Their new
// instances have the site files, which were written since.
func TestOldNodesAreMadeAnewAfterTheirJobs(t *testing.T) {
	running := lab.Job(t, "--partition=burst", "--nodelist=b01", harness.Until)
	lab.AwaitJob(t, running, "RUNNING")
	lab.AwaitNothingWaits(t)
	before := lab.Identities(t, "b01", "node01", "node02")
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[0].MaxAge, d.NodeGroups[1].MaxAge = "7d", "7d"
	})
	ages(t, "b01", "node02")
	site := filepath.Join(lab.Site, "ansible", "files")
	t.Cleanup(func() {
		if err := os.RemoveAll(site); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(filepath.Join(site, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"check.0.all": "for all\n", "check.5.node02": "{\"best\": true}\n"} {
		if err := os.WriteFile(filepath.Join(site, "site", name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	// Other differences do not concern this test; an aged node is a note.
	if out, _ := lab.Call(t, "reconcile", "--recheck", "0s", "--fix"); !strings.Contains(out, "b01: taken out of use") {
		t.Fatal(out)
	}
	if state := lab.State(t, "b01"); state != "MIXED+CLOUD+DRAIN+POWER_DOWN" {
		t.Errorf("b01 is %s", state)
	}
	if is := lab.Identities(t, "b01", "node01"); is["b01"] != before["b01"] || is["node01"] != before["node01"] {
		t.Errorf("instances changed: %+v, before %+v", is, before)
	}
	if is := lab.Identities(t, "node02")["node02"]; is.Boot == before["node02"].Boot {
		t.Errorf("node02 was not made anew: %+v", is)
	}
	lab.AwaitIdle(t, "node02")
	if is := lab.On(t, "node02", "cat", "/etc/slurm/site/check"); is != `{"best": true}` {
		t.Errorf("node02 has the site file %q", is)
	}
	if out := lab.Do(t, "status", "--json"); strings.Count(out, `"age"`) != 1 {
		t.Errorf("b01 alone is too old:\n%s", out)
	}

	next := lab.Job(t, "--partition=burst", "--nodelist=b01", harness.Until)
	lab.AssertRunning(t, running)
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, running, "COMPLETED")
	lab.AwaitJob(t, next, "RUNNING")
	if is, _ := lab.Server("b01"); is.ID == before["b01"].ID {
		t.Error("b01 was not made anew")
	}
	is := lab.On(t, "b01", "/bin/sh", "-c", "ls -l /etc/slurm/site/check | cut -c1-10; cat /etc/slurm/site/check")
	if is != "-rwxr-xr-x\nfor all" {
		t.Errorf("b01 has the site file %q", is)
	}
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, next, "COMPLETED")
	lab.AssertNeverRestarted(t, running, next)
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}
