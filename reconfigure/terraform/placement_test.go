package terraform

import (
	"context"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestAnInstanceIsPlacedWhenItIsMade shows that the placement of an entry has an effect when an instance is made, and
// only then: a rebuild and a change of the map leave it where it is.
func TestAnInstanceIsPlacedWhenItIsMade(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Zones = []string{"north", "south"} })
	compute, err := openstack.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	compute.Microversion = "2.79"
	apart, err := servergroups.Create(c.Context(), compute,
		servergroups.CreateOpts{Name: "apart", Policy: "anti-affinity"}).Extract()
	c.must(err)
	zones := func() map[string]string {
		found := map[string]string{}
		for name, s := range c.servers() {
			s, err := servers.Get(context.Background(), compute, s.ID).Extract()
			c.must(err)
			found[name] = s.AvailabilityZone
		}
		return found
	}
	want := func(node, zone string) {
		t.Helper()
		if got := zones()[node]; got != zone {
			t.Errorf("%s is in %q, want %q", node, got, zone)
		}
	}
	d := c.open()
	desired := c.deployed("node01", "node02", "node03", "node04")
	place := func(node string, p reconfigure.Placement) {
		spec := desired[node]
		spec.Placement = p
		desired[node] = spec
	}
	place("node01", reconfigure.Placement{Zone: "south",
		Metadata: reconfigure.MakeTexts(map[string]string{"role": "compute"})})
	c.deploy(d, desired)
	metadata, err := servers.Metadata(c.Context(), compute, c.servers()["node01"].ID).Extract()
	if c.must(err); metadata["role"] != "compute" || metadata["eiffel_group"] != "standard" {
		t.Errorf("the metadata of node01 is %v", metadata)
	}
	want("node01", "south")
	want("node02", "north")
	different := reconfigure.MakeTexts(map[string]string{"different_host": c.servers()["node03"].ID})
	for node, p := range map[string]reconfigure.Placement{
		"node05": {ServerGroup: apart.ID, Zone: "south"}, "node06": {Hints: different},
	} {
		desired[node] = c.spec("standard", imageV1)
		place(node, p)
	}
	if failures := c.carryOut(d, planOf(reconfigure.Create, desired, "node05", "node06")); len(failures) > 0 {
		t.Fatal(failures)
	}
	want("node06", "south")
	desired["node07"] = c.spec("standard", imageV1)
	place("node07", reconfigure.Placement{ServerGroup: apart.ID})
	if failures := c.carryOut(d, planOf(reconfigure.Create, desired, "node07")); len(failures) > 0 {
		t.Fatal(failures)
	}
	want("node07", "north")
	c.wantClean(d)

	before := c.servers()
	place("node01", reconfigure.Placement{Metadata: desired["node01"].Metadata})
	place("node02", reconfigure.Placement{Zone: "south"})
	place("node03", reconfigure.Placement{Hints: different})
	moved := desired["node04"]
	moved.ImageID, moved.Zone = imageV2, "south"
	desired["node04"] = moved
	if failures := c.carryOut(d, planOf(reconfigure.Replace, desired, "node02", "node04")); len(failures) > 0 {
		t.Fatal(failures)
	}
	for node, zone := range map[string]string{
		"node01": "south", "node02": "south", "node03": "north", "node04": "south",
	} {
		want(node, zone)
	}
	after := c.servers()
	for _, node := range []string{"node01", "node03", "node05", "node06", "node07"} {
		if after[node].ID != before[node].ID {
			t.Errorf("%s, which the plan does not name, has another instance", node)
		}
	}
	if after["node04"].Image != imageV2 {
		t.Errorf("node04 is %+v", after["node04"])
	}
	c.wantClean(d)
}
