package terraform

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	cloud "github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestAClusterWithoutAnIDGetsOne makes a cluster as earlier versions did. A new id must not change its instances and
// ports, neither when Terraform gets the id nor when they are marked. Later instances and ports have the id.
func TestAClusterWithoutAnIDGetsOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	kept := keeper(t, t.TempDir())
	c.cfg.Keeper = kept
	d := c.open()
	desired := c.deployed("node01", "node02")
	desired["node03"] = reconfigure.Spec{Group: "standard", NetworkID: c.network}
	c.deploy(d, desired)
	c.wantClean(d)
	c.wantMarked("Slurm cluster id " + clusterID)

	c.must(kept.AdoptIdentity(t.Context(), clusterID))
	c.must(d.nodes().Adopt(t.Context()))
	c.wantClean(d)

	servers, owned, err := d.Owned(t.Context())
	c.must(err)
	if len(servers) != 3 || len(owned) != 4 {
		t.Fatalf("the state has servers %v and ports %v", servers, owned)
	}
	if state, err := d.State(t.Context()); err != nil || len(state.Ports) != 4 || state.Ports["node03"] == "" {
		t.Errorf("the state has the ports %v, error %v", state.Ports, err)
	}
	client, err := cloud.New(t.Context(), cloud.Config{
		Cloud: "openstack", CloudsFile: filepath.Join(c.dir, "clouds.yaml"), Cluster: "eiffel",
		Identity: reconfigure.Identity{ID: clusterID},
	})
	c.must(err)
	if rest, err := client.Mark(t.Context(), servers, owned); err != nil || len(rest) > 0 {
		t.Fatalf("rest %v, error %v", rest, err)
	}
	c.wantMarked("Slurm cluster id "+clusterID, control, "node01", "node02", "node03")
	c.wantClean(d)

	// The state lacks the marks, since there was no refresh.
	desired["node03"], desired["node04"] = c.spec("standard", imageV1), c.spec("standard", imageV1)
	desired["node02"] = reconfigure.Spec{Group: "standard", NetworkID: c.network}
	mixed := planOf(reconfigure.Create, desired, "node03", "node04")
	mixed.Changes = append(mixed.Changes, planOf(reconfigure.Remove, desired, "node02").Changes...)
	if failures := c.carryOut(d, mixed); len(failures) > 0 {
		t.Fatal(failures)
	}
	delete(desired, "node01")
	if failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node01")); len(failures) > 0 {
		t.Fatal(failures)
	}
	c.wantMarked("Slurm cluster id "+clusterID, control, "node02", "node03", "node04")
	c.wantClean(d)
	marked, err := client.Servers(t.Context(), nodeset.NodeSet{})
	c.must(err)
	for _, node := range []string{control, "node03", "node04"} {
		if len(marked[node]) != 1 {
			t.Errorf("%s is not known by the id: %v", node, marked[node])
		}
	}
}

// wantMarked checks which nodes have ports with a description.
func (c *cluster) wantMarked(description string, want ...string) {
	c.Helper()
	network, err := openstack.NewNetworkV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	pages, err := ports.List(network, ports.ListOpts{Description: description}).AllPages(c.Context())
	c.must(err)
	all, err := ports.ExtractPorts(pages)
	c.must(err)
	var got []string
	for _, p := range all {
		got = append(got, p.Name)
	}
	slices.Sort(got)
	if !slices.Equal(want, got) {
		c.Errorf("ports %v are described as %q, not %v", got, description, want)
	}
}

func TestAnIDOutlivesTheJournal(t *testing.T) {
	one, _ := hosts(t)
	noError(t, one.Keeper.(*journal.Journal).AdoptIdentity(t.Context(), clusterID))
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	for name, m := range map[string]NodeMap{
		"the journal": one, "an empty one": {one.Dir, keeper(t, t.TempDir())}, "none": {one.Dir, nil},
	} {
		if id, err := m.ClusterID(t.Context()); id != clusterID || err != nil {
			t.Errorf("by %s the id is %q, error %v", name, id, err)
		}
	}
	other := keeper(t, t.TempDir())
	noError(t, other.AdoptNodes(t.Context(), nodeB))
	if id, err := (NodeMap{one.Dir, other}).ClusterID(t.Context()); id != "" || err != nil {
		t.Errorf("another cluster takes the id %q, error %v", id, err)
	}
	if id, err := (NodeMap{t.TempDir(), nil}).ClusterID(t.Context()); id != "" || err != nil {
		t.Errorf("of no cluster the id is %q, error %v", id, err)
	}
}

func TestAFileWithoutTheIDIsNotUpToDate(t *testing.T) {
	one, _ := hosts(t)
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	noError(t, one.Keeper.(*journal.Journal).AdoptIdentity(t.Context(), clusterID))
	noError(t, one.Adopt(t.Context()))
	if found, _, err := one.read(); found.ClusterID != clusterID || err != nil {
		t.Errorf("the file has the id %q, error %v", found.ClusterID, err)
	}
}
