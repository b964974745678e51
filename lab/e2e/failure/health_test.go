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
// Before, check-nodes checks a persistent node.
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
	check(`[ "$(id -u)" = 0 ] || exit 7
[ "$HEALTH_NODE" = node01 ] || ! pidof slurmd || exit 8
[ "$HEALTH_NODE" != w01 ] || { echo /scratch is slow; exit 3; }`)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.NodeGroups[0].HealthCheck = []string{"memory", "scratch"}
		d.NodeGroups[1].HealthCheck = []string{"disks", "memory", "scratch"}
		d.Reconfigure["retries"] = 1
	})
	lab.Do(t, "deploy") // slurmd of the persistent node runs already, so its check is not run
	checkAgain(t, "node01")
	good, bad := lab.Job(t, "--nodelist=w02", "--wrap=true"), lab.Job(t, "--nodelist=w01", "--wrap=true")
	lab.AwaitJob(t, good, "COMPLETED")
	lab.AssertNeverRestarted(t, good)
	w := &way{node: "w01", class: reconfigure.ClassUnhealthy, job: bad}
	lab.Eventually(t, failurePatience, func() (bool, string) {
		comment := lab.OnControl(t, "scontrol", "show", "job", bad)
		return strings.Contains(comment, w.class.ForOwner()), comment
	})
	// Each of the two instances did not become ready.
	said := lab.Do(t, "explain", "w01")
	if n := strings.Count(said, "unhealthy: health check scratch failed: /scratch is slow (exit status 3)"); n < 2 {
		t.Errorf("explain does not have two attempts:\n%s", said)
	}
	if evidence := lab.Do(t, "evidence", "w01"); !strings.Contains(evidence, "/scratch is slow") {
		t.Errorf("the evidence is\n%s", evidence)
	}
	check("exit 0")
	assertJobsComeToRun(t, []*way{w})
}

// checkAgain checks an idle node, with its check, with one that fails, and with one that passes again.
func checkAgain(t *testing.T, node string) {
	t.Helper()
	lab.Do(t, "check-nodes", node)
	write := func(body string) {
		lab.On(t, node, "sh", "-c", "printf '#!/bin/sh\\n"+body+"\\n' >/etc/slurm/health/check-scratch")
	}
	write("echo it is hot; exit 3")
	said, code := lab.Call(t, "check-nodes", node)
	const want = "unhealthy: health check scratch failed: it is hot (exit status 3)"
	if code == 0 || !strings.Contains(said, want) {
		t.Errorf("check-nodes ends with %d:\n%s", code, said)
	}
	state, reason := lab.State(t, node), lab.Reason(t, node)
	if !strings.Contains(state, "DRAIN") || !strings.HasPrefix(reason, "reconfigure: "+want) {
		t.Errorf("%s is %s, %q", node, state, reason)
	}
	write("exit 0")
	lab.Do(t, "check-nodes", node)
	if state := lab.State(t, node); strings.Contains(state, "DRAIN") {
		t.Errorf("%s is %s after it has passed", node, state)
	}
}
