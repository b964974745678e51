package terraform

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// allowed returns the networks of the cloud's ingress rules: "tcp 0.0.0.0/0 (IPv4)".
func (c *cluster) allowed() []string {
	c.Helper()
	client, err := openstack.NewNetworkV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	pages, err := rules.List(client, rules.ListOpts{Direction: "ingress"}).AllPages(c.Context())
	c.must(err)
	found, err := rules.ExtractRules(pages)
	c.must(err)
	var all []string
	for _, rule := range found {
		if rule.RemoteIPPrefix != "" {
			all = append(all, rule.Protocol+" "+rule.RemoteIPPrefix+" ("+rule.EtherType+")")
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}

func TestOnlyAllowedNetworksReachTheNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	if diff := gocmp.Diff([]string{"icmp 0.0.0.0/0 (IPv4)", "tcp 0.0.0.0/0 (IPv4)"}, c.allowed()); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	c.declare("cluster_name: eiffel\n", "cluster_name: eiffel\nallowed_cidrs: [192.0.2.0/24, \"2001:db8::/32\"]\n")
	p := planOf(reconfigure.Create, desired)
	p.Shared = true
	if failures := c.carryOut(d, p); len(failures) > 0 {
		t.Fatalf("%v", failures)
	}
	want := []string{
		"icmp 192.0.2.0/24 (IPv4)", "ipv6-icmp 2001:db8::/32 (IPv6)", "tcp 192.0.2.0/24 (IPv4)",
		"tcp 2001:db8::/32 (IPv6)",
	}
	if diff := gocmp.Diff(want, c.allowed()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.wantClean(d)
}
