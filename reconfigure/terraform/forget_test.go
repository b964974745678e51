package terraform

import (
	"maps"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestAnInstanceIsMadeBesideOneThatIsForgotten forgets the instance of a node, and makes another one with its port on
// another host. The hint for that is not in the map of nodes afterwards.
func TestAnInstanceIsMadeBesideOneThatIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Zones = []string{"north", "south"} })
	compute, err := openstack.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	d, desired := c.open(), c.deployed("node01", "node02")
	c.deploy(d, desired)
	failed, ports := c.servers()["node01"], c.ports()

	forgotten := maps.Clone(desired)
	forgotten["node01"], _ = desired["node01"].PortOnly()
	for range 2 {
		c.must(d.ForgetInstances(c.Context(), forgotten, nodeset.Of("node01")))
	}
	state, err := d.State(c.Context())
	if is := state.Instances["node01"]; err != nil || is.ID != "" || state.Instances["node02"].ID == "" {
		t.Errorf("the state has %+v, error %v", state.Instances, err)
	}
	c.wantClean(d)

	c.stopServer("node01")
	for _, port := range ports["node01"] {
		c.must(attachinterfaces.Delete(c.Context(), compute, failed.ID, port).ExtractErr())
	}
	spec := desired["node01"]
	spec.Avoid = failed.ID
	desired["node01"] = spec
	if failures := c.carryOut(d, planOf("create", desired, "node01")); len(failures) > 0 {
		t.Fatal(failures)
	}
	made := 0
	for _, s := range c.cloud.Servers() {
		if s.Name == "node01" && s.ID != failed.ID {
			made++
			if s.Zone != "south" {
				t.Errorf("node01 is in %q, as the instance to avoid", s.Zone)
			}
		}
	}
	kept, err := d.Desired(c.Context())
	if err != nil || made != 1 || kept["node01"] != desired["node01"].Stored() {
		t.Errorf("%d new instances; the map has %+v, error %v", made, kept["node01"], err)
	}
	c.must(servers.Delete(c.Context(), compute, failed.ID).ExtractErr())
	c.wantClean(d)
}

// TestAnInstanceWithAVolumeIsNotForgotten has a resource of the site for each instance.
func TestAnInstanceWithAVolumeIsNotForgotten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.write("terraform/openstack/additions.tf", `resource "terraform_data" "volume" {
  for_each = local.nodes
  input    = openstack_compute_instance_v2.node[each.key].id
}
`)
	d, desired := c.open(), c.deployed("node01")
	c.deploy(d, desired)
	forgotten := maps.Clone(desired)
	forgotten["node01"], _ = desired["node01"].PortOnly()
	err := d.ForgetInstances(c.Context(), forgotten, nodeset.Of("node01"))
	if err == nil || !strings.Contains(err.Error(), "the state has terraform_data.volume of node01") {
		t.Errorf("error %v", err)
	}
	c.wantClean(d)
	c.wantInstances(d, c.servers())
}
