package terraform

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// lose removes the states, the maps and the journal, and returns what the cloud has of them.
func (c *cluster) lose() Existing {
	c.Helper()
	for _, pattern := range []string{"terraform.tfstate*", "nodes*", ".terraform"} {
		found, err := filepath.Glob(filepath.Join(c.cfg.Dir, pattern))
		c.must(err)
		for _, path := range found {
			c.must(os.RemoveAll(path))
		}
	}
	c.cfg.PlanDir = filepath.Join(c.TempDir(), "plans")
	c.cfg.Keeper = keeper(c.T, filepath.Join(c.TempDir(), "state"))
	c.must(c.cfg.Keeper.(*journal.Journal).AdoptIdentity(c.Context(), clusterID))
	cloud, err := openstack.New(c.Context(), openstack.Config{
		Cloud: "openstack", CloudsFile: filepath.Join(c.dir, "clouds.yaml"), Cluster: "eiffel",
		Identity: reconfigure.Identity{ID: clusterID},
	})
	c.must(err)
	is := Existing{Servers: map[string]reconfigure.Server{}, Ports: map[string]string{}, Shared: cloud.Shared}
	all, err := cloud.Servers(c.Context(), nodeset.NodeSet{})
	c.must(err)
	ports, err := cloud.Ports(c.Context())
	c.must(err)
	for node, found := range ports {
		if found[0].Network != c.network {
			c.Errorf("the port of %s is in network %q", node, found[0].Network)
		}
		if found[0].Server == "" {
			is.Ports[node] = found[0].ID
			continue
		}
		is.Servers[node] = all[node][0]
		server := is.Servers[node]
		server.PortID = found[0].ID
		is.Servers[node] = server
	}
	return is
}

// TestLostStatesAreRecovered has two states, a kept port and a stopped instance. Nothing in the cloud may change, a
// plan must have no changes, and Terraform must be able to remove an instance then.
func TestLostStatesAreRecovered(t *testing.T) {
	t.Parallel()
	const shard = "standard-1"
	c := newCluster(t, nil)
	d, other := c.open(), c.in(shard)
	desired := c.deployed("node01", "node03", "node04")
	kept, _ := desired["node03"].PortOnly()
	desired["node03"] = kept
	c.deploy(d, desired)
	stopped := desired["node04"]
	stopped.Power = reconfigure.PowerOff
	desired["node04"] = stopped
	if failures := c.carryOut(d, planOf(reconfigure.Stop, desired, "node04")); len(failures) > 0 {
		t.Fatal(failures)
	}
	moved := c.spec("standard", imageV1)
	moved.Shard = shard
	desired["node02"] = moved
	more := planOf(reconfigure.Create, desired, "node02").InShard(shard, nil)
	if failures := c.carryOut(other, more); len(failures) > 0 {
		t.Fatal(failures)
	}
	before, ports, entries := c.servers(), c.ports(), c.entries(d, "node01")

	is := c.lose()
	d, other = c.open(), c.in(shard)
	// A kill before the refresh leaves unproven entries.
	killed, kill := context.WithCancel(t.Context())
	first := is
	first.Shared = func(ctx context.Context, planned []reconfigure.SharedResource) (map[string]string, error) {
		defer kill()
		return is.Shared(ctx, planned)
	}
	if _, err := d.Recover(killed, desired, first); !errors.Is(err, context.Canceled) {
		t.Fatalf("a recovery that was interrupted: %v", err)
	}
	for _, tc := range []struct {
		d    *Driver
		want string
	}{{d, control + ",node[01,03-04]"}, {other, "node02"}, {d, control + ",node[01,03-04]"}} {
		done, err := tc.d.Recover(t.Context(), desired, is)
		if err != nil || done.Nodes.String() != tc.want || len(done.Failures)+len(done.Rest) > 0 {
			t.Fatalf("recovered %s, failures %v, rest %v: %v", done.Nodes, done.Failures, done.Rest, err)
		}
		if tc.d == d && len(done.Shared) < 6 {
			t.Errorf("the shared resources are %v", done.Shared)
		}
	}
	for _, d := range []*Driver{d, other} {
		changes, err := d.PreviewAll(t.Context())
		if err != nil || len(changes) > 0 {
			t.Errorf("a plan has changes: %v, %v", changes, err)
		}
	}
	c.wantClean(d)
	c.wantCleanByHand(other, shard)
	if diff := cmp.Diff(before, c.servers(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the servers were touched:\n%s", diff)
	}
	if diff := cmp.Diff(ports, c.ports()); diff != "" {
		t.Errorf("the ports were touched:\n%s", diff)
	}
	// The attributes are as the cloud has them now, and a plan has no changes.
	recovered := c.entries(d, "node01")
	for _, same := range []map[string]string{entries, recovered} {
		maps.DeleteFunc(same, func(name, _ string) bool {
			return strings.HasSuffix(name, " private") || strings.HasSuffix(name, " attributes")
		})
	}
	if diff := cmp.Diff(entries, recovered); diff != "" {
		t.Errorf("the entries (-made +recovered):\n%s", diff)
	}
	delete(desired, "node01")
	if failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node01")); len(failures) > 0 {
		t.Errorf("removal: %v", failures)
	}
}

// TestWhatDiffersIsNotRecovered has an instance that was made from another image than the map says, one that is gone,
// and a security rule that is missing in the cloud.
func TestWhatDiffersIsNotRecovered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	desired := c.deployed("node01", "node02")
	c.deploy(c.open(), desired)
	c.declare("# allowed_cidrs:", "allowed_cidrs:")
	is := c.lose()
	desired["node02"] = c.spec("standard", imageV2)
	desired["node05"] = c.spec("standard", imageV1)
	d := c.open()
	done, err := d.Recover(t.Context(), desired, is)
	if err != nil || done.Nodes.String() != control+",node01" {
		t.Fatalf("recovered %s: %v", done.Nodes, err)
	}
	for node, want := range map[string]string{"node02": "Terraform would update", "node05": "no instance"} {
		if why := done.Failures[node]; why == nil || !strings.Contains(why.Error(), want) {
			t.Errorf("%s: %v", node, why)
		}
	}
	if !slices.ContainsFunc(done.Rest, func(said string) bool { return strings.Contains(said, "_rule_v2.ssh") }) {
		t.Errorf("the rest is %v", done.Rest)
	}
	if found := c.entries(d, "node02"); len(found) > 0 {
		t.Errorf("node02 is in the state: %v", found)
	}
}
