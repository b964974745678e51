package terraform

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	client "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// foreign makes servers as a person does: Nova makes their ports.
func (c *cluster) foreign(names ...string) {
	c.Helper()
	compute, err := client.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	for _, name := range names {
		_, err := servers.Create(c.Context(), compute, servers.CreateOpts{
			Name: name, ImageRef: imageV2, FlavorRef: big, Networks: []servers.Network{{UUID: c.network}},
			Metadata: map[string]string{"owner": "anna"},
		}, nil).Extract()
		c.must(err)
		c.until(name+" runs", func() bool { return c.servers()[name].Status == "ACTIVE" })
	}
}

// claim marks servers of somebody else as the cluster's, and returns their entries and what exists.
func (c *cluster) claim(names ...string) (*openstack.Client, map[string]reconfigure.Spec, Existing) {
	c.Helper()
	cloud, err := openstack.New(c.Context(), openstack.Config{
		Cloud: "openstack", CloudsFile: filepath.Join(c.dir, "clouds.yaml"), Cluster: "eiffel",
		Identity: reconfigure.Identity{ID: clusterID},
	})
	c.must(err)
	found, err := cloud.Candidates(c.Context(), nodeset.Of(names...))
	c.must(err)
	specs, is := map[string]reconfigure.Spec{}, Existing{Servers: map[string]reconfigure.Server{}}
	for _, name := range names {
		one := found[name][0]
		c.must(cloud.Claim(c.Context(), one.ID, name, "standard"))
		specs[name] = reconfigure.Spec{
			Group: "standard", ImageID: one.ImageID, FlavorID: one.FlavorID, NetworkID: one.Ports[0].Network,
			Placement: reconfigure.Placement{Metadata: one.Metadata}, SecurityGroups: one.Ports[0].SecurityGroups,
		}
		one.PortID = one.Ports[0].ID
		is.Servers[name] = one.Server
	}
	return cloud, specs, is
}

func asIs(t *testing.T, what string, before, after map[string]labcloud.Server) {
	t.Helper()
	if diff := cmp.Diff(before, after, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("%s (-before +after):\n%s", what, diff)
	}
}

// TestServersOfOthersAreTakenIn takes in one server, and not another one with a difference, which is as it was then.
// The first is replaced, as by an update: Nova removes its port with it, so that a second attempt is needed. Then it is
// removed, its port is kept, and it is made again.
func TestServersOfOthersAreTakenIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d, desired := c.open(), c.deployed("node01")
	c.deploy(d, desired)
	c.foreign("node02", "node03")
	before := c.servers()

	cloud, specs, is := c.claim("node02", "node03")
	desired["node02"], desired["node03"] = specs["node02"], specs["node03"]
	wrong := desired["node03"]
	wrong.FlavorID = small
	desired["node03"] = wrong
	for range 2 { // the second time as after a kill
		done, err := d.Recover(t.Context(), desired, is)
		if err != nil || !done.Nodes.Contains("node02") || len(done.Rest) > 0 {
			t.Fatalf("taken in %s, rest %v: %v", done.Nodes, done.Rest, err)
		}
		why := done.Failures["node03"]
		if why == nil || !strings.Contains(why.Error(), "update openstack_compute_instance_v2") {
			t.Errorf("node03: %v", why)
		}
	}
	delete(desired, "node03")
	c.must(d.Forget(t.Context(), desired, nodeset.Of("node03")))
	c.must(d.Forget(t.Context(), desired, nodeset.Of("node03")))
	c.must(cloud.Disclaim(t.Context(), is.Servers["node03"].ID))
	c.wantClean(d)
	after := c.servers()
	asIs(t, "the server that was refused", map[string]labcloud.Server{"": before["node03"]},
		map[string]labcloud.Server{"": after["node03"]})
	if before["node02"].ID != after["node02"].ID {
		t.Error("the server that was taken in is another one")
	}

	replace := planOf(reconfigure.Replace, desired, "node02")
	if class := reconfigure.ClassOf(c.carryOut(d, replace)["node02"]); !class.Passing() {
		t.Errorf("the class of the first attempt is %q, so there is no second one", class)
	}
	if failures := c.carryOut(d, replace); len(failures) > 0 {
		t.Errorf("replacement: %v", failures)
	}
	c.wantClean(d)
	if c.servers()["node02"].ID == before["node02"].ID {
		t.Error("the server was not replaced")
	}

	made := desired["node02"]
	desired["node02"], _ = made.PortOnly()
	if failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node02")); len(failures) > 0 {
		t.Errorf("removal: %v", failures)
	}
	c.wantClean(d)
	desired["node02"] = made
	if failures := c.carryOut(d, planOf(reconfigure.Create, desired, "node02")); len(failures) > 0 {
		t.Errorf("another instance: %v", failures)
	}
	c.wantClean(d)
}

// TestATakenInServerIsReleased takes in the first server of a cluster without any resource, and releases it.
func TestATakenInServerIsReleased(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.foreign("node01")
	before, ports := c.servers(), c.ports()
	d := c.open()
	cloud, desired, is := c.claim("node01")
	done, err := d.Recover(t.Context(), desired, is)
	if err != nil || done.Nodes.String() != "node01" || len(done.Failures) > 0 || len(done.Rest) == 0 {
		t.Fatalf("taken in %s, failures %v, rest %v: %v", done.Nodes, done.Failures, done.Rest, err)
	}
	c.deploy(d, desired) // makes the shared resources
	c.wantClean(d)
	c.must(d.Forget(t.Context(), map[string]reconfigure.Spec{}, nodeset.Of("node01")))
	for range 2 {
		c.must(cloud.Disclaim(t.Context(), is.Servers["node01"].ID))
	}
	asIs(t, "the servers", before, c.servers())
	if diff := cmp.Diff(ports, c.ports()); diff != "" {
		t.Errorf("the ports (-before +after):\n%s", diff)
	}
	if found, err := d.Instances(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the state has %v: %v", found, err)
	}
}
