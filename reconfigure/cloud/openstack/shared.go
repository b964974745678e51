package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The types of shared resources of the root module, besides groupType.
const (
	keyPairType    = "openstack_compute_keypair_v2"
	ruleType       = "openstack_networking_secgroup_rule_v2"
	floatingIPType = "openstack_networking_floatingip_v2"
)

// Shared returns the ids of those shared resources of the root module that exist, by address: it finds the key pair by
// its name, the security group by its name and its description, the rules by what they allow, and the floating IP by
// its description. It leaves out what does not exist, and types that the root module does not have. If two exist, it is
// an error that names them. The call may be retried.
func (c *Client) Shared(ctx context.Context, planned []reconfigure.SharedResource) (map[string]string, error) {
	found := map[string]string{}
	group := ""
	for _, r := range planned {
		if r.Type == ruleType { // the group is in the state already
			group = cmp.Or(group, text(r.Attributes["security_group_id"]))
		}
		if r.Type != groupType {
			continue
		}
		id, err := c.groupLike(ctx, r.Attributes)
		if err != nil {
			return nil, err
		}
		if id != "" {
			group, found[r.Address] = id, id
		}
	}
	var existing []rules.SecGroupRule
	if group != "" {
		var err error
		if existing, err = c.rulesOf(ctx, group); err != nil {
			return nil, err
		}
	}
	taken := map[string]bool{}
	for _, r := range planned {
		id, err := "", error(nil)
		switch r.Type {
		case keyPairType:
			id, err = c.keyPairLike(ctx, r.Attributes)
		case ruleType:
			id = ruleLike(existing, group, r.Attributes, taken)
			taken[id] = true
		case floatingIPType:
			id, err = c.floatingIPLike(ctx, r.Attributes)
		}
		if err != nil {
			return nil, err
		}
		if id != "" {
			found[r.Address] = id
		}
	}
	return found, nil
}

func (c *Client) groupLike(ctx context.Context, attributes map[string]any) (string, error) {
	name, description := text(attributes["name"]), text(attributes["description"])
	pages, err := groups.List(c.network, groups.ListOpts{}).AllPages(ctx)
	if err != nil {
		return "", c.failed("list the security groups of", err)
	}
	all, err := groups.ExtractGroups(pages)
	if err != nil {
		return "", c.failed("list the security groups of", err)
	}
	var ids []string
	for _, g := range all {
		if g.Name == name && g.Description == description {
			ids = append(ids, g.ID)
		}
	}
	return single(ids, fmt.Sprintf("security groups %q", name), "openstack security group delete ID")
}

// single returns the only id; empty if there is none.
func single(ids []string, what, command string) (string, error) {
	switch len(ids) {
	case 0:
		return "", nil
	case 1:
		return ids[0], nil
	}
	slices.Sort(ids)
	return "", fmt.Errorf("there are %d %s with the cluster's description: %s; remove the one that is not the cluster's, "+
		"by `%s`", len(ids), what, strings.Join(ids, ", "), command)
}

func (c *Client) rulesOf(ctx context.Context, group string) ([]rules.SecGroupRule, error) {
	pages, err := rules.List(c.network, rules.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, c.failed("list the rules of security group "+group+" of", err)
	}
	all, err := rules.ExtractRules(pages)
	if err != nil {
		return nil, c.failed("list the rules of security group "+group+" of", err)
	}
	return slices.DeleteFunc(all, func(r rules.SecGroupRule) bool { return r.SecGroupID != group }), nil
}

// ruleLike returns the id of a rule of the group that allows what a planned one does; empty if there is none. A planned
// rule without a prefix is for the group itself. Rules that are taken are left out.
func ruleLike(all []rules.SecGroupRule, group string, attributes map[string]any, taken map[string]bool) string {
	prefix := text(attributes["remote_ip_prefix"])
	i := slices.IndexFunc(all, func(r rules.SecGroupRule) bool {
		remote := r.RemoteGroupID == ""
		if prefix == "" {
			remote = r.RemoteGroupID == group
		}
		return !taken[r.ID] && remote && r.Direction == text(attributes["direction"]) &&
			r.EtherType == text(attributes["ethertype"]) && sameProtocol(r.Protocol, text(attributes["protocol"])) &&
			r.PortRangeMin == number(attributes["port_range_min"]) && r.PortRangeMax == number(attributes["port_range_max"]) &&
			r.RemoteIPPrefix == prefix
	})
	if i < 0 {
		return ""
	}
	return all[i].ID
}

// sameProtocol compares two names of a protocol. Neutron stores the older name of ipv6-icmp, icmpv6, as it is given.
func sameProtocol(a, b string) bool {
	plain := func(name string) string { return strings.ReplaceAll(strings.ToLower(name), "icmpv6", "ipv6-icmp") }
	return plain(a) == plain(b)
}

func number(v any) int {
	switch n := v.(type) {
	case float64:
		return int(n)
	case json.Number:
		i, _ := n.Int64()
		return int(i)
	}
	return 0
}

func (c *Client) keyPairLike(ctx context.Context, attributes map[string]any) (string, error) {
	name := text(attributes["name"])
	pair, err := keypairs.Get(ctx, c.compute, name, nil).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", c.failed("look at key pair "+name+" of", err)
	}
	return pair.Name, nil
}

func (c *Client) floatingIPLike(ctx context.Context, attributes map[string]any) (string, error) {
	description := text(attributes["description"])
	pages, err := floatingips.List(c.network, floatingips.ListOpts{}).AllPages(ctx)
	if err != nil {
		return "", c.failed("list the floating IPs of", err)
	}
	all, err := floatingips.ExtractFloatingIPs(pages)
	if err != nil {
		return "", c.failed("list the floating IPs of", err)
	}
	var ids, used []string
	for _, ip := range all {
		if ip.Description != description {
			continue
		}
		ids = append(ids, ip.ID)
		if ip.PortID != "" {
			used = append(used, ip.ID)
		}
	}
	if len(used) > 0 {
		ids = used
	}
	return single(ids, "floating IPs", "openstack floating ip delete ID")
}
