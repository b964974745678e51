package clouds_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	gophercloudstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestKilledWhileServersAreBuilt(t *testing.T) {
	scenario(t, "the worker and Terraform are killed while two servers are in BUILD: both servers are adopted")
	killedWhileServersAreBuilt(t)
}

func TestKilledWhileServersWithoutKeptPortsAreBuilt(t *testing.T) {
	scenario(t, "the same with `keep_ports: false`: there is no second server and no second port")
	lab.DeployAfter(t)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].KeepPorts = new(bool) })
	lab.Do(t, "deploy") // it removes the kept ports
	killedWhileServersAreBuilt(t)
	if have := portsOf(t); have["node02"]+have["node03"] > 0 {
		t.Errorf("ports are left: %v", have)
	}
}

// killedWhileServersAreBuilt kills all processes while a job's two nodes are built, before they are ACTIVE. The next
// worker must adopt the same servers.
func killedWhileServersAreBuilt(t *testing.T) {
	t.Helper()
	nodes := []string{"node02", "node03"}
	var release []func()
	for _, node := range nodes {
		release = append(release, holdBoots(t, node))
	}
	job := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
	before := map[string]string{}
	for _, node := range nodes {
		awaitState(t, node, "BUILD")
		s, _ := lab.Server(node)
		before[node] = s.ID
	}
	lab.KillWorkers(t)
	request := lab.LastRequest(t)
	log := lab.Journal(t)
	killed, err := log.Events(t.Context(), request.ID, 0)
	check(t, err)
	lab.StartWorker(t)
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		now, err := log.Events(t.Context(), request.ID, killed[len(killed)-1].ID)
		return len(phases(now, reconfigure.PhaseApply, reconfigure.Begun)) == len(nodes),
			fmt.Sprintf("the next worker has not begun with both nodes: %+v (%v)", now, err)
	})
	for _, end := range release {
		end()
	}
	lab.AwaitJob(t, job, "RUNNING")
	after := map[string]string{}
	for _, node := range nodes {
		s, _ := lab.Server(node)
		after[node] = s.ID
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("servers (-at the kill +when the job runs):\n%s\n%s", diff, lab.WorkerLogs())
	}
	assertNothingDoubled(t)
	assertNotMadeAnew(t, request)
	lab.AssertNeverRestarted(t, job)
	lab.AssertTerraformIsClean(t)
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, job, "COMPLETED")
	awaitPeace(t)
}

// phases returns the first event with a level of each node in a phase.
func phases(events []reconfigure.Event, phase reconfigure.Phase, level reconfigure.Level) map[string]reconfigure.Event {
	first := map[string]reconfigure.Event{}
	for _, e := range events {
		if _, seen := first[e.Node]; !seen && e.Node != "" && e.Phase == phase && e.Level == level {
			first[e.Node] = e
		}
	}
	return first
}

// assertNothingDoubled checks that no name has two servers, nor two ports.
func assertNothingDoubled(t *testing.T) {
	t.Helper()
	servers := map[string]int{}
	for _, s := range lab.Servers() {
		servers[s.Name]++
	}
	for what, have := range map[string]map[string]int{"servers": servers, "ports": portsOf(t)} {
		for name, n := range have {
			if n > 1 {
				t.Errorf("%s has %d %s", name, n, what)
			}
		}
	}
}

// portsOf returns the number of the project's ports by name.
func portsOf(t *testing.T) map[string]int {
	t.Helper()
	client, err := gophercloudstack.NewNetworkV2(member(t), gophercloud.EndpointOpts{Region: "RegionOne"})
	check(t, err)
	pages, err := ports.List(client, ports.ListOpts{}).AllPages(t.Context())
	check(t, err)
	all, err := ports.ExtractPorts(pages)
	check(t, err)
	have := map[string]int{}
	for _, p := range all {
		if p.Name != "" { // a network's own services
			have[p.Name]++
		}
	}
	return have
}

// assertNotMadeAnew checks that no request, from this one on, has mistaken an instance for a missing one.
func assertNotMadeAnew(t *testing.T, since reconfigure.Request) {
	t.Helper()
	log := lab.Journal(t)
	newest, err := log.Requests(t.Context(), 100)
	check(t, err)
	for _, r := range newest {
		if r.ID < since.ID {
			continue
		}
		events, err := log.Events(t.Context(), r.ID, 0)
		check(t, err)
		for _, e := range events {
			if strings.Contains(e.Message, "made anew") {
				t.Errorf("request %s: %s: %s", r.ID, e.Node, e.Message)
			}
		}
	}
}

// TestSeveralNodesAreDeliveredEarly lets Terraform run to its end, so that both times are from the same run.
func TestSeveralNodesAreDeliveredEarly(t *testing.T) {
	scenario(t, "two nodes in one run are delivered before Terraform has ended")
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.Reconfigure = maps.Clone(d.Reconfigure)
		d.Reconfigure["interrupt"] = false
	})
	job := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	request := lab.LastRequest(t)
	lab.AwaitNothingWaits(t)
	events, err := lab.Journal(t).Events(t.Context(), request.ID, 0)
	check(t, err)
	var begun, ours, alone time.Time
	booted, done := phases(events, reconfigure.PhaseBoot, reconfigure.Begun), map[string]reconfigure.Event{}
	for _, e := range events {
		switch {
		case begun.IsZero() && strings.HasPrefix(e.Message, "Terraform: "):
			begun = e.Time
		case strings.HasPrefix(e.Message, "create openstack_compute_instance_v2.node: done after "):
			done[e.Node] = e
		}
	}
	for _, node := range []string{"node02", "node03"} {
		if done[node].ID == 0 || booted[node].ID == 0 || !booted[node].Time.Before(done[node].Time) {
			t.Errorf("%s: delivered with event %+v, made by Terraform with event %+v", node, booted[node], done[node])
		}
		ours, alone = latest(ours, booted[node].Time), latest(alone, done[node].Time)
	}
	t.Attr("measured", fmt.Sprintf("%.1f s; Terraform %.1f s", ours.Sub(begun).Seconds(), alone.Sub(begun).Seconds()))
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, job, "COMPLETED")
	awaitPeace(t)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// TestSeveralNodesAreRebooted has Slurm reboot two nodes at once. One query to the cloud must suffice for both.
func TestSeveralNodesAreRebooted(t *testing.T) {
	scenario(t, "two nodes are rebooted at once: they keep their servers and host keys")
	const both = "node[01-02]"
	until := func(file string) string { return "--wrap=until [ -e " + file + " ]; do sleep 1; done" }
	job := lab.Job(t, "--nodelist="+both, "--nodes=2", until("/tmp/first"))
	lab.AwaitJob(t, job, "RUNNING")
	lab.AwaitNothingWaits(t)
	last := lab.LastRequest(t)
	before, keys := lab.Identities(t, "node01", "node02"), hostKeys(t)
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", both)
	second := lab.Job(t, "--nodelist="+both, "--nodes=2", until("/tmp/second")) // it keeps node02 up
	lab.On(t, "node01", "touch", "/tmp/first")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitJob(t, second, "RUNNING")
	lab.AwaitNothingWaits(t)
	after := lab.Identities(t, "node01", "node02")
	for node := range before {
		if before[node].ID != after[node].ID || before[node].Boot == after[node].Boot {
			t.Errorf("%s: %+v, then %+v", node, before[node], after[node])
		}
	}
	if diff := cmp.Diff(keys, hostKeys(t)); diff != "" {
		t.Errorf("known host keys (-before +after):\n%s", diff)
	}
	assertNotMadeAnew(t, last)
	lab.AssertNeverRestarted(t, job, second)
	lab.On(t, "node01", "touch", "/tmp/second")
	lab.AwaitJob(t, second, "COMPLETED")
	awaitPeace(t)
}

// hostKeys returns the known host keys of the nodes that have servers, by address.
func hostKeys(t *testing.T) map[string][]string {
	t.Helper()
	known, err := lab.Journal(t).HostKeys(context.WithoutCancel(t.Context()))
	check(t, err)
	keys := map[string][]string{}
	for _, s := range lab.Servers() {
		for _, a := range s.Addresses {
			keys[a.String()] = slices.Sorted(slices.Values(known[a.String()]))
		}
	}
	return keys
}
