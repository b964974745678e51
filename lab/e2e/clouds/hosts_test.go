package clouds_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// secondHost adds a host in another zone, which the scheduler prefers since it is empty, until the test ends.
func secondHost(t *testing.T) (host string) {
	t.Helper()
	if real == nil {
		t.Skip("labcloud has a host for each zone: the packages failure and grow run this there")
	}
	const name = "compute2"
	remove, err := real.AddHost(t.Context(), name, cluster.ZoneOther)
	check(t, err)
	t.Cleanup(func() {
		if err := remove(withoutEnd(t)); err != nil {
			t.Error(err)
		}
	})
	return name
}

// zonesOf returns the zones of a node's servers, which say on which hosts they are.
func zonesOf(node string) []string {
	var zones []string
	for _, s := range lab.Servers() {
		if s.Name == node {
			zones = append(zones, s.Zone)
		}
	}
	return zones
}

func TestABadHostCostsNoJob(t *testing.T) {
	scenario(t, "a host that the scheduler prefers breaks each server: the next attempt is on another host, and no job "+
		"is requeued")
	bad := secondHost(t)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.Reconfigure["retries"] = 1 })
	over := real.BreakHost(bad)
	job := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	broken := over()
	if len(broken) != 2 {
		t.Errorf("%q broke on %s, not two nodes: the test proves nothing", broken, bad)
	}
	for _, node := range broken {
		// The kept instance is removed after the job has begun.
		lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
			got := zonesOf(node)
			return slices.Equal(got, []string{cluster.ZoneUsual}), fmt.Sprintf("%s is in the zones %q", node, got)
		})
	}
	if out, code := lab.Call(t, "hosts"); code != 0 || strings.Count(out, "\n") != 3 {
		t.Errorf("want a line for each host, exit code %d\n%s", code, out)
	}
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	awaitPeace(t)
}

func TestPlacement(t *testing.T) {
	scenario(t, "a zone is declared, then a server group that keeps nodes apart: each node is on such a host")
	secondHost(t)
	const group = "apart"
	client := compute(t, member(t))
	made, err := servergroups.Create(t.Context(), client,
		servergroups.CreateOpts{Name: group, Policy: "anti-affinity"}).Extract()
	check(t, err)
	t.Cleanup(func() {
		if err := servergroups.Delete(withoutEnd(t), client, made.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	for _, change := range []struct {
		name     string
		declare  func(*cluster.NodeGroup)
		expected func(a, b string) bool
	}{
		{"the usual zone", func(g *cluster.NodeGroup) { g.Zone = cluster.ZoneUsual },
			func(a, b string) bool { return a == cluster.ZoneUsual && b == cluster.ZoneUsual }},
		{"the other zone", func(g *cluster.NodeGroup) { g.Zone = cluster.ZoneOther },
			func(a, b string) bool { return a == cluster.ZoneOther && b == cluster.ZoneOther }},
		{"two hosts", func(g *cluster.NodeGroup) { g.ServerGroup = group },
			func(a, b string) bool { return a != b }},
	} {
		t.Run(change.name, func(t *testing.T) {
			lab.Redeclare(t, func(d *cluster.Declaration) { change.declare(&d.NodeGroups[0]) })
			job := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
			lab.AwaitJob(t, job, "RUNNING")
			got := slices.Concat(zonesOf("node02"), zonesOf("node03"))
			if len(got) != 2 || !change.expected(got[0], got[1]) {
				t.Errorf("the nodes are in the zones %q", got)
			}
			lab.LetGo(t, "node02")
			lab.AwaitJob(t, job, "COMPLETED")
			awaitPeace(t)
		})
	}
}
