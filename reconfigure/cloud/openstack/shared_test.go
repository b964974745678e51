package openstack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestSharedResourcesAreFoundByWhatTheyAre has a group with the same name and another description, the default rules of a
// group, and then a second group with the description. The attributes are as Terraform plans them.
func TestSharedResourcesAreFoundByWhatTheyAre(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	group := func(description string) string {
		g, err := groups.Create(t.Context(), l.client.network, groups.CreateOpts{
			Name: "eiffel", Description: description,
		}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		return g.ID
	}
	group("another's")
	own := group("Slurm cluster eiffel")
	rule := func(o rules.CreateOpts) string {
		o.SecGroupID, o.Direction, o.EtherType = own, rules.DirIngress, rules.EtherType4
		r, err := rules.Create(t.Context(), l.client.network, o).Extract()
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	inside := rule(rules.CreateOpts{RemoteGroupID: own})
	ssh := rule(rules.CreateOpts{
		Protocol: rules.ProtocolTCP, PortRangeMin: 22, PortRangeMax: 22, RemoteIPPrefix: "192.0.2.0/24",
	})
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"
	_, err := keypairs.Create(t.Context(), l.client.compute, keypairs.CreateOpts{Name: "eiffel", PublicKey: key}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	ingress := func(more map[string]any) map[string]any {
		more["direction"], more["ethertype"] = "ingress", "IPv4"
		return more
	}
	asSSH := func(prefix string) map[string]any {
		return ingress(map[string]any{
			"protocol": "tcp", "port_range_min": 22.0, "port_range_max": 22.0, "remote_ip_prefix": prefix,
		})
	}
	planned := []reconfigure.SharedResource{
		{Address: "inside", Type: ruleType, Attributes: ingress(map[string]any{})},
		{Address: "ssh", Type: ruleType, Attributes: asSSH("192.0.2.0/24")},
		{Address: "new", Type: ruleType, Attributes: asSSH("198.51.100.0/24")},
		{Address: "twice", Type: ruleType, Attributes: asSSH("192.0.2.0/24")},
		{Address: "group", Type: groupType, Attributes: map[string]any{
			"name": "eiffel", "description": "Slurm cluster eiffel"}},
		{Address: "key", Type: keyPairType, Attributes: map[string]any{"name": "eiffel"}},
		{Address: "nokey", Type: keyPairType, Attributes: map[string]any{"name": "none"}},
		{Address: "ip", Type: floatingIPType, Attributes: map[string]any{"description": "Slurm cluster eiffel"}},
		{Address: "own", Type: "site_thing", Attributes: map[string]any{"name": "eiffel"}},
	}
	found, err := l.client.Shared(t.Context(), planned)
	want := map[string]string{"group": own, "inside": inside, "ssh": ssh, "key": "eiffel"}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%v, found (-want +got):\n%s", err, diff)
	}
	// The group is in Terraform's state already.
	rest := []reconfigure.SharedResource{{Address: "ssh", Type: ruleType, Attributes: asSSH("192.0.2.0/24")}}
	rest[0].Attributes["security_group_id"] = own
	if found, err = l.client.Shared(t.Context(), rest); err != nil || found["ssh"] != ssh {
		t.Errorf("with a known group: %v, %v", found, err)
	}
	second := group("Slurm cluster eiffel")
	if _, err = l.client.Shared(t.Context(), planned); err == nil || !strings.Contains(err.Error(), second) {
		t.Errorf("two groups: %v", err)
	}
}
