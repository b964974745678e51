package failure_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
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

// TestIdleNodesAreCheckedAgain breaks a node while its job runs. The worker leaves it alone, and checks it when the job
// has ended. The checks do not stop Slurm from powering an idle cloud node down.
func TestIdleNodesAreCheckedAgain(t *testing.T) {
	generation.OnlyFull(t)
	lab.Redeclare(t, func(d *cluster.Declaration) {
		for i := range d.NodeGroups[:2] {
			d.NodeGroups[i].HealthCheck, d.NodeGroups[i].HealthInterval = []string{"disks"}, 60
		}
		d.Reconfigure["reconcile_minutes"] = 1
	})
	lab.Do(t, "deploy")
	checks := func(node string) (n int) {
		requests, err := lab.Journal(t).Requests(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			if r.Mode == reconfigure.CheckNodes && r.Nodes.Contains(node) && r.Caller == "reconcile in the worker" {
				n++
			}
		}
		return n
	}
	job := lab.Job(t, "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	write := func(body string) {
		lab.On(t, "node01", "sh", "-c", "printf '#!/bin/sh\n"+body+"\n' >/etc/slurm/health/check-disks")
	}
	write("echo it is hot; exit 3")
	before, due := checks("node01"), time.Now().Add(time.Minute)
	lab.AwaitJob(t, lab.Job(t, "--nodelist=w01", "--wrap=true"), "COMPLETED")
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		_, there := lab.Server("w01")
		return !there, "Slurm does not power w01 down"
	})
	lab.Eventually(t, failurePatience, func() (bool, string) {
		var last reconcile.Look
		text, err := os.ReadFile(filepath.Join(lab.StateDir(), "reconcile.json"))
		if err == nil {
			err = json.Unmarshal(text, &last)
		}
		return last.Time.After(due), fmt.Sprintf("the worker has compared the sources at %s (%v)", last.Time, err)
	})
	if state := lab.State(t, "node01"); checks("node01") != before || strings.Contains(state, "DRAIN") {
		t.Errorf("node01 was checked beside its job: it is %s", state)
	}
	lab.LetGo(t, "node01")
	lab.Eventually(t, failurePatience, func() (bool, string) {
		state, reason := lab.State(t, "node01"), lab.Reason(t, "node01")
		return strings.Contains(state, "DRAIN") && strings.Contains(reason, "it is hot"), state + " " + reason
	})
	write("exit 0")
	lab.Do(t, "check-nodes", "node01")
	before = checks("node01")
	lab.Eventually(t, failurePatience, func() (bool, string) { return checks("node01") > before, "it is not checked again" })
}

// checkAgain checks an idle node, with its check, with one that fails, and with one that passes again.
func checkAgain(t *testing.T, node string) {
	t.Helper()
	// A node that is NOT_RESPONDING is not checked: on a busy computer, it may be so until Slurm's next ping.
	checkNode := func() (said string, code int) {
		t.Helper()
		lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
			said, code = lab.Call(t, "check-nodes", node)
			return !strings.Contains(said, "NOT_RESPONDING"), said
		})
		return said, code
	}
	mustPass := func() {
		t.Helper()
		if said, code := checkNode(); code != 0 {
			t.Fatalf("check-nodes ends with %d:\n%s", code, said)
		}
	}
	mustPass()
	write := func(body string) {
		lab.On(t, node, "sh", "-c", "printf '#!/bin/sh\\n"+body+"\\n' >/etc/slurm/health/check-scratch")
	}
	write("echo it is hot; exit 3")
	said, code := checkNode()
	const want = "unhealthy: health check scratch failed: it is hot (exit status 3)"
	if code == 0 || !strings.Contains(said, want) {
		t.Errorf("check-nodes ends with %d:\n%s", code, said)
	}
	state, reason := lab.State(t, node), lab.Reason(t, node)
	if !strings.Contains(state, "DRAIN") || !strings.HasPrefix(reason, "reconfigure: "+want) {
		t.Errorf("%s is %s, %q", node, state, reason)
	}
	write("exit 0")
	mustPass()
	if state := lab.State(t, node); strings.Contains(state, "DRAIN") {
		t.Errorf("%s is %s after it has passed", node, state)
	}
}

// TestABadHostCostsNoJob has a host of the cloud that breaks each node, and that the cloud's scheduler prefers. Each
// node comes up on another host at its second attempt, so that no job is requeued.
func TestABadHostCostsNoJob(t *testing.T) {
	lab.Redeclare(t, func(d *cluster.Declaration) { d.Reconfigure["retries"] = 1 })
	lab.Order(t, labcloud.Fault{Kind: labcloud.FullDisk, Server: "w*", Zone: cluster.ZoneUsual, Count: 1000})
	nodes := []string{"w10", "w11", "w12"}
	var jobs []string
	for _, node := range nodes {
		jobs = append(jobs, lab.Job(t, "--nodelist="+node, "--wrap=true"))
	}
	for _, job := range jobs {
		lab.AwaitJob(t, job, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, jobs...)
	for _, node := range nodes {
		lab.Eventually(t, failurePatience, func() (bool, string) {
			var zones []string
			for _, s := range lab.Servers() {
				if s.Name == node {
					zones = append(zones, s.Zone)
				}
			}
			return slices.Equal(zones, []string{cluster.ZoneOther}), fmt.Sprintf("the instances of %s are in %q", node, zones)
		})
	}
}
