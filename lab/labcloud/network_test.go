package labcloud_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// port makes a port on the cluster's network.
func (f *fixture) port(opts ports.CreateOpts) (*ports.Port, error) {
	f.Helper()
	opts.NetworkID = f.networkID("cluster")
	return ports.Create(f.Context(), f.network, opts).Extract()
}

// listPorts lists ports by a filter.
func (f *fixture) listPorts(opts ports.ListOpts) []ports.Port {
	f.Helper()
	pages, err := ports.List(f.network, opts).AllPages(f.Context())
	f.must(err)
	found, err := ports.ExtractPorts(pages)
	f.must(err)
	return found
}

func TestNetworksAndSubnets(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	network, err := networks.Get(t.Context(), f.network, f.networkID("cluster")).Extract()
	f.must(err)
	subnet, err := subnets.Get(t.Context(), f.network, network.Subnets[0]).Extract()
	f.must(err)
	if subnet.CIDR != "10.60.0.0/16" || subnet.GatewayIP != "10.60.0.1" || subnet.NetworkID != network.ID {
		t.Errorf("subnet: %+v", subnet)
	}
	_, err = networks.Get(t.Context(), f.network, absent).Extract()
	f.wantCode(err, http.StatusNotFound, "NetworkNotFound")
	pages, err := networks.List(f.network, networks.ListOpts{Status: "ACTIVE", ID: network.ID}).AllPages(t.Context())
	f.must(err)
	if found, _ := networks.ExtractNetworks(pages); len(found) != 1 {
		t.Errorf("networks by id: %v", found)
	}
}

func TestPortsHaveAddressesFromTheBeginning(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	first, err := f.port(ports.CreateOpts{Name: "a"})
	f.must(err)
	wished, err := f.port(ports.CreateOpts{FixedIPs: []ports.IP{{IPAddress: "10.60.7.7"}}})
	f.must(err)
	none, err := f.port(ports.CreateOpts{FixedIPs: []ports.IP{}})
	f.must(err)
	if first.FixedIPs[0].IPAddress != "10.60.0.2" || wished.FixedIPs[0].IPAddress != "10.60.7.7" ||
		len(none.FixedIPs) != 0 {
		t.Errorf("addresses: %v, %v, %v", first.FixedIPs, wished.FixedIPs, none.FixedIPs)
	}
	_, err = f.port(ports.CreateOpts{FixedIPs: []ports.IP{{IPAddress: "10.60.7.7"}}})
	f.wantCode(err, http.StatusConflict, "IpAddressAlreadyAllocated")
	_, err = f.port(ports.CreateOpts{FixedIPs: []ports.IP{{IPAddress: "10.99.0.1"}}})
	f.wantCode(err, http.StatusBadRequest, "not a valid IP")
	_, err = f.port(ports.CreateOpts{SecurityGroups: &[]string{absent}})
	f.wantCode(err, http.StatusNotFound, "SecurityGroupNotFound")

	name := "b"
	updated, err := ports.Update(t.Context(), f.network, first.ID, ports.UpdateOpts{
		Name: &name, FixedIPs: []ports.IP{{IPAddress: "10.60.8.8"}},
		AllowedAddressPairs: &[]ports.AddressPair{{IPAddress: "10.60.9.9"}},
	}).Extract()
	f.must(err)
	if updated.Name != "b" || updated.FixedIPs[0].IPAddress != "10.60.8.8" ||
		updated.AllowedAddressPairs[0].MACAddress != first.MACAddress {
		t.Errorf("updated port: %+v", updated)
	}
	if found := f.listPorts(ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: "10.60.8.8"}}}); len(found) != 1 {
		t.Errorf("ports by address: %v", found)
	}
}

// TestAddressesAreReusedLast checks the order of allocation of a small pool.
func TestAddressesAreReusedLast(t *testing.T) {
	cfg := configuration()
	cfg.Networks[0].CIDR = netip.MustParsePrefix("10.60.0.0/29") // .1 to .6, .1 is the gateway
	f := newFixture(t, cfg, labcloud.Null{})
	take := func() (id, address string) {
		t.Helper()
		p, err := f.port(ports.CreateOpts{})
		f.must(err)
		return p.ID, p.FixedIPs[0].IPAddress
	}
	two, _ := take()
	three, _ := take()
	f.must(ports.Delete(t.Context(), f.network, three).ExtractErr())
	f.must(ports.Delete(t.Context(), f.network, two).ExtractErr())
	for _, want := range []string{"10.60.0.4", "10.60.0.5", "10.60.0.6", "10.60.0.3", "10.60.0.2"} {
		if _, got := take(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	_, err := f.port(ports.CreateOpts{})
	f.wantCode(err, http.StatusConflict, "IpAddressGenerationFailure")
	_, err = f.create("n1")
	f.wantCode(err, http.StatusConflict, "No more IP addresses")
}

// TestServersReleaseTheirPorts checks that a deleted server leaves the ports that existed before it, and that those
// that Nova created are removed.
func TestServersReleaseTheirPorts(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	ctx := t.Context()
	mine, err := f.port(ports.CreateOpts{Name: "mine"})
	f.must(err)
	opts := servers.CreateOpts{
		Name: "n1", ImageRef: imageV1, FlavorRef: "flavor-small",
		Networks: []servers.Network{{Port: mine.ID}, {UUID: f.networkID("cluster")}},
	}
	s, err := servers.Create(ctx, f.compute, opts, nil).Extract()
	f.must(err)
	f.await(s.ID, "ACTIVE")
	if used := f.listPorts(ports.ListOpts{DeviceID: s.ID, Status: "ACTIVE"}); len(used) != 2 {
		t.Fatalf("ports of the server: %+v", used)
	}
	_, err = servers.Create(ctx, f.compute, opts, nil).Extract()
	f.wantCode(err, http.StatusConflict, "is still in use")
	f.must(servers.Delete(ctx, f.compute, s.ID).ExtractErr())
	f.awaitGone(s.ID)
	left := f.listPorts(ports.ListOpts{})
	if len(left) != 1 || left[0].ID != mine.ID || left[0].DeviceID != "" || left[0].Status != "DOWN" {
		t.Errorf("ports afterwards: %+v", left)
	}
}

func TestSecurityGroups(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	ctx := t.Context()
	group, err := groups.Create(ctx, f.network, groups.CreateOpts{Name: "cluster"}).Extract()
	f.must(err)
	if len(group.Rules) != 2 {
		t.Errorf("a group begins with %d rules, want the two that let everything out", len(group.Rules))
	}
	ssh := rules.CreateOpts{
		SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4,
		Protocol: rules.ProtocolTCP, PortRangeMin: 22, PortRangeMax: 22,
	}
	rule, err := rules.Create(ctx, f.network, ssh).Extract()
	f.must(err)
	_, err = rules.Create(ctx, f.network, ssh).Extract()
	f.wantCode(err, http.StatusConflict, "Rule id is "+rule.ID)

	port, err := f.port(ports.CreateOpts{SecurityGroups: &[]string{group.ID}})
	f.must(err)
	f.wantCode(groups.Delete(ctx, f.network, group.ID).ExtractErr(), http.StatusConflict, "in use")
	f.must(ports.Delete(ctx, f.network, port.ID).ExtractErr())
	f.must(rules.Delete(ctx, f.network, rule.ID).ExtractErr())
	_, err = rules.Get(ctx, f.network, rule.ID).Extract()
	f.wantCode(err, http.StatusNotFound, "SecurityGroupRuleNotFound")
	f.must(groups.Delete(ctx, f.network, group.ID).ExtractErr())
	_, err = groups.Get(ctx, f.network, group.ID).Extract()
	f.wantCode(err, http.StatusNotFound, "SecurityGroupNotFound")
}

func TestServersSecurityGroupsCanChange(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	group, err := groups.Create(t.Context(), f.network, groups.CreateOpts{Name: "extra"}).Extract()
	f.must(err)
	s := f.running("n1")
	names := func() string {
		var all string
		for _, g := range f.await(s.ID, "ACTIVE").SecurityGroups {
			all += fmt.Sprint(g["name"], " ")
		}
		return all
	}
	for _, c := range []struct{ action, want string }{
		{"addSecurityGroup", "default extra "}, {"removeSecurityGroup", "default "},
	} {
		response, text := f.send("POST", "/compute/v2.1/servers/"+s.ID+"/action", "2.79",
			fmt.Sprintf(`{%q:{"name":%q}}`, c.action, group.Name))
		if response.StatusCode != http.StatusAccepted || names() != c.want {
			t.Errorf("%s: %d %s, groups are %s", c.action, response.StatusCode, text, names())
		}
	}
}

func TestFloatingIPs(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	ctx := t.Context()
	s := f.running("n1")
	port := f.listPorts(ports.ListOpts{DeviceID: s.ID})[0]
	fip, err := floatingips.Create(ctx, f.network,
		floatingips.CreateOpts{FloatingNetworkID: f.networkID("public")}).Extract()
	f.must(err)
	if fip.FloatingIP != "192.0.2.1" || fip.Status != "DOWN" {
		t.Errorf("floating IP: %+v", fip)
	}
	_, err = floatingips.Create(ctx, f.network,
		floatingips.CreateOpts{FloatingNetworkID: f.networkID("cluster")}).Extract()
	f.wantCode(err, http.StatusBadRequest, "not a valid external network")
	for range 2 { // associating it again changes nothing
		fip, err = floatingips.Update(ctx, f.network, fip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract()
		f.must(err)
	}
	if fip.PortID != port.ID || fip.FixedIP != "10.60.0.2" || fip.Status != "ACTIVE" {
		t.Errorf("associated floating IP: %+v", fip)
	}
	addresses := func() []any { return f.await(s.ID, "ACTIVE").Addresses["cluster"].([]any) }
	if got := addresses(); len(got) != 2 {
		t.Errorf("addresses of the server: %v", got)
	}
	_, err = floatingips.Update(ctx, f.network, fip.ID, floatingips.UpdateOpts{}).Extract()
	f.must(err)
	if got := addresses(); len(got) != 1 {
		t.Errorf("addresses without the floating IP: %v", got)
	}
	_, err = floatingips.Update(ctx, f.network, fip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Extract()
	f.must(err)
	f.must(servers.Delete(ctx, f.compute, s.ID).ExtractErr())
	f.awaitGone(s.ID)
	if fip, err = floatingips.Get(ctx, f.network, fip.ID).Extract(); err != nil || fip.PortID != "" {
		t.Errorf("after its port was removed: %+v, %v", fip, err)
	}
	f.must(floatingips.Delete(ctx, f.network, fip.ID).ExtractErr())
	_, err = floatingips.Get(ctx, f.network, fip.ID).Extract()
	f.wantCode(err, http.StatusNotFound, "FloatingIPNotFound")
}

func TestNetworkTagsAndQuota(t *testing.T) {
	cfg := configuration()
	cfg.Quotas.Ports = 1
	f := newFixture(t, cfg, labcloud.Null{})
	ctx := t.Context()
	port, err := f.port(ports.CreateOpts{})
	f.must(err)
	_, err = attributestags.ReplaceAll(ctx, f.network, "ports", port.ID,
		attributestags.ReplaceAllOpts{Tags: []string{"lab"}}).Extract()
	f.must(err)
	if all, err := attributestags.List(ctx, f.network, "ports", port.ID).Extract(); err != nil || len(all) != 1 {
		t.Errorf("tags: %v, %v", all, err)
	}
	if found := f.listPorts(ports.ListOpts{Tags: "lab"}); len(found) != 1 {
		t.Errorf("ports by tag: %v", found)
	}
	_, err = f.port(ports.CreateOpts{})
	f.wantCode(err, http.StatusConflict, "Quota exceeded for resources: ['port']")
	detail, err := quotas.GetDetail(ctx, f.network, port.TenantID).Extract()
	if err != nil || detail.Port.Limit != 1 || detail.Port.Used != 1 {
		t.Errorf("quota: %+v, %v", detail, err)
	}
	unlimited := -1
	if set, err := quotas.Update(ctx, f.network, port.TenantID,
		quotas.UpdateOpts{Port: &unlimited}).Extract(); err != nil || set.Port != -1 {
		t.Errorf("quota set: %+v, %v", set, err)
	}
	_, err = f.port(ports.CreateOpts{})
	f.must(err)
}
