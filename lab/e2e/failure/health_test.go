package failure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestAnUnhealthyNodeGetsNoJob has a check of the site that fails on one of two nodes. The good one runs its job. The
// other one is tried on a second instance, and is reported, so that its job is requeued and runs when the check passes.
func TestAnUnhealthyNodeGetsNoJob(t *testing.T) {
	folder := filepath.Join(lab.Site, filepath.FromSlash(reconfigure.SiteHealthFolder))
	script := filepath.Join(folder, "scratch")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	check := func(body string) {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check(`[ "$(id -u)" = 0 ] || exit 7; pidof slurmd && exit 8; [ "$HEALTH_NODE" != w01 ] || { echo /scratch is slow; exit 3; }`)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[1].HealthCheck = []string{"disks", "memory", "scratch"}
		d.Reconfigure["retries"] = 1
	})
	good, bad := lab.Job(t, "--nodelist=w02", "--wrap=true"), lab.Job(t, "--nodelist=w01", "--wrap=true")
	lab.AwaitJob(t, good, "COMPLETED")
	lab.AssertNeverRestarted(t, good)
	w := &way{node: "w01", class: reconfigure.ClassUnhealthy, job: bad}
	lab.Eventually(t, failurePatience, func() (bool, string) {
		reason, _ := lab.NodeReason("w01")
		return w.shows() || strings.Contains(lab.Do(t, "explain", "w01"), "/scratch is slow"), reason
	})
	w.assertOwnerIsTold(t)
	said := lab.Do(t, "explain", "w01")
	for _, want := range []string{"unhealthy", "health check scratch failed: /scratch is slow (exit status 3)", "retried on a fresh instance"} {
		if !strings.Contains(said, want) {
			t.Errorf("explain does not say %q:\n%s", want, said)
		}
	}
	if evidence := lab.Do(t, "evidence", "w01"); !strings.Contains(evidence, "/scratch is slow") {
		t.Errorf("the evidence is\n%s", evidence)
	}
	check("exit 0")
	assertJobsComeToRun(t, []*way{w})
}
