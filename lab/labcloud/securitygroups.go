package labcloud

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// securityGroup is a set of rules, which the lab keeps but does not enforce.
type securityGroup struct {
	stamp
	rules []*securityGroupRule
}

// securityGroupRule is one rule of a group.
type securityGroupRule struct {
	stamp
	ruleFields
}

// ruleFields are the parts of a rule in a request; nil means "any".
type ruleFields struct {
	GroupID        string  `json:"security_group_id"`
	Direction      string  `json:"direction"`
	EtherType      string  `json:"ethertype"`
	Protocol       *string `json:"protocol"`
	PortMin        *int    `json:"port_range_min"`
	PortMax        *int    `json:"port_range_max"`
	RemotePrefix   *string `json:"remote_ip_prefix"`
	RemoteGroup    *string `json:"remote_group_id"`
	RemoteAddrs    *string `json:"remote_address_group_id"`
	Description    string  `json:"description"`
	TenantID       string  `json:"tenant_id"`
	ProjectIDField string  `json:"project_id"`
}

func (c *Cloud) securityGroupRoutes() []route {
	const groups, rules = "/network/v2.0/security-groups", "/network/v2.0/security-group-rules"
	return append([]route{
		{network, "GET " + groups, false, func(r *request) (reply, error) {
			return listResources(r, "security_groups", &c.securityGroups)
		}},
		{network, "POST " + groups, false, c.createSecurityGroup},
		{network, "GET " + groups + "/{id}", false, func(r *request) (reply, error) {
			g, err := c.findSecurityGroup(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"security_group": g.view()}), nil
		}},
		{network, "PUT " + groups + "/{id}", false, c.updateSecurityGroup},
		{network, "DELETE " + groups + "/{id}", false, c.deleteSecurityGroup},
		{network, "GET " + rules, false, func(r *request) (reply, error) {
			return listResources(r, "security_group_rules", &c.rules)
		}},
		{network, "POST " + rules, false, c.createRule},
		{network, "GET " + rules + "/{id}", false, func(r *request) (reply, error) {
			rule, err := c.findRule(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"security_group_rule": rule.view()}), nil
		}},
		{network, "DELETE " + rules + "/{id}", false, c.deleteRule},
	}, tagRoutes(groups, c.findSecurityGroup)...)
}

// findSecurityGroup finds the group named in a path.
func (c *Cloud) findSecurityGroup(r *request) (*securityGroup, error) {
	g, found := c.securityGroups.get(r.PathValue("id"))
	if !found {
		return nil, notFound("SecurityGroupNotFound", "Security group %s does not exist", r.PathValue("id"))
	}
	return g, nil
}

// findRule finds the rule named in a path.
func (c *Cloud) findRule(r *request) (*securityGroupRule, error) {
	rule, found := c.rules.get(r.PathValue("id"))
	if !found {
		return nil, notFound("SecurityGroupRuleNotFound", "Security group rule %s does not exist", r.PathValue("id"))
	}
	return rule, nil
}

func (g *securityGroup) view() object {
	rules := []object{}
	for _, rule := range g.rules {
		rules = append(rules, rule.view())
	}
	return g.with(object{"security_group_rules": rules, "stateful": true, "shared": false})
}

func (rule *securityGroupRule) has(name, value string) (matched, known bool) {
	switch name {
	case "security_group_id":
		return rule.GroupID == value, true
	case "direction":
		return rule.Direction == value, true
	case "ethertype":
		return rule.EtherType == value, true
	}
	return rule.stamp.has(name, value)
}

func (rule *securityGroupRule) view() object {
	v := rule.with(object{
		"security_group_id": rule.GroupID, "direction": rule.Direction, "ethertype": rule.EtherType,
		"protocol": rule.Protocol, "port_range_min": rule.PortMin, "port_range_max": rule.PortMax,
		"remote_ip_prefix": rule.RemotePrefix, "remote_group_id": rule.RemoteGroup,
		"remote_address_group_id": rule.RemoteAddrs, "normalized_cidr": rule.RemotePrefix,
	})
	delete(v, "name")
	return v
}

// addSecurityGroup makes a group with the initial rules of every group, which allow all outgoing traffic.
func (c *Cloud) addSecurityGroup(id, name, description string) *securityGroup {
	g := &securityGroup{stamp: newStamp(id, name, description, c.projectID)}
	c.securityGroups.add(g.id, g)
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		c.addRule(g, ruleFields{GroupID: g.id, Direction: "egress", EtherType: ethertype})
	}
	return g
}

// addDefaultSecurityGroup makes the group for ports that name no group; its members may reach one another.
func (c *Cloud) addDefaultSecurityGroup() {
	c.defaultGroup = stableID("security group", "default")
	g := c.addSecurityGroup(c.defaultGroup, "default", "Default security group")
	for _, ethertype := range []string{"IPv4", "IPv6"} {
		c.addRule(g, ruleFields{GroupID: g.id, Direction: "ingress", EtherType: ethertype, RemoteGroup: &g.id})
	}
}

func (c *Cloud) addRule(g *securityGroup, f ruleFields) *securityGroupRule {
	rule := &securityGroupRule{stamp: newStamp(uuid.NewString(), "", f.Description, c.projectID), ruleFields: f}
	g.rules = append(g.rules, rule)
	c.rules.add(rule.id, rule)
	return rule
}

// groupFields are the fields of a group in a request.
type groupFields struct {
	Name        *string `json:"name"`
	Description *string `json:"description"`
	TenantID    string  `json:"tenant_id"`
	ProjectID   string  `json:"project_id"`
	Stateful    *bool   `json:"stateful"`
}

func (c *Cloud) createSecurityGroup(r *request) (reply, error) {
	var ask struct {
		Group groupFields `json:"security_group"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	if err := c.checkNetworkQuota("security_group"); err != nil {
		return reply{}, err
	}
	var name, description string
	set(&name, ask.Group.Name)
	set(&description, ask.Group.Description)
	if name == "default" {
		return reply{}, conflict("SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
	}
	return created(object{"security_group": c.addSecurityGroup(uuid.NewString(), name, description).view()}), nil
}

func (c *Cloud) updateSecurityGroup(r *request) (reply, error) {
	var ask struct {
		Group groupFields `json:"security_group"`
	}
	g, err := c.findSecurityGroup(r)
	if err != nil {
		return reply{}, err
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	set(&g.name, ask.Group.Name)
	set(&g.description, ask.Group.Description)
	g.touch()
	return ok(object{"security_group": g.view()}), nil
}

// deleteSecurityGroup refuses to delete a group that a port uses.
func (c *Cloud) deleteSecurityGroup(r *request) (reply, error) {
	g, err := c.findSecurityGroup(r)
	if err != nil {
		return reply{}, err
	}
	if g.id == c.defaultGroup {
		return reply{}, conflict("SecurityGroupCannotRemoveDefault",
			"Insufficient rights for removing default security group.")
	}
	for _, p := range c.ports.all() {
		if slices.Contains(p.groups, g.id) {
			return reply{}, conflict("SecurityGroupInUse", "Security Group %s in use.", g.id)
		}
	}
	for _, rule := range g.rules {
		c.rules.remove(rule.id)
	}
	c.securityGroups.remove(g.id)
	return noContent(), nil
}

func (c *Cloud) createRule(r *request) (reply, error) {
	var ask struct {
		Rule ruleFields `json:"security_group_rule"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	f := ask.Rule
	g, found := c.securityGroups.get(f.GroupID)
	if !found {
		return reply{}, notFound("SecurityGroupNotFound", "Security group %s does not exist", f.GroupID)
	}
	if f.EtherType == "" {
		f.EtherType = "IPv4"
	}
	if err := f.check(); err != nil {
		return reply{}, err
	}
	if err := c.checkNetworkQuota("security_group_rule"); err != nil {
		return reply{}, err
	}
	for _, other := range g.rules {
		if other.same(f) {
			return reply{}, conflict("SecurityGroupRuleExists",
				"Security group rule already exists. Rule id is %s.", other.id)
		}
	}
	return created(object{"security_group_rule": c.addRule(g, f).view()}), nil
}

// check rejects an inconsistent rule.
func (f *ruleFields) check() error {
	switch {
	case f.Direction != "ingress" && f.Direction != "egress":
		return badRequest("Invalid input for direction. Reason: %s is not in valid_values.", f.Direction)
	case f.EtherType != "IPv4" && f.EtherType != "IPv6":
		return badRequest("Invalid input for ethertype. Reason: %s is not in valid_values.", f.EtherType)
	case f.PortMin != nil && f.Protocol == nil:
		return badRequest("Must also specify protocol if port range is given.")
	case f.PortMin != nil && f.PortMax != nil && *f.PortMin > *f.PortMax && !strings.HasPrefix(*f.Protocol, "icmp"):
		return badRequest("For TCP/UDP protocols, port_range_min must be <= port_range_max")
	}
	return nil
}

// same reports whether two rules of a group allow the same traffic.
func (f *ruleFields) same(g ruleFields) bool {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	number := func(n *int) string {
		if n == nil {
			return ""
		}
		return fmt.Sprint(*n)
	}
	return f.Direction == g.Direction && f.EtherType == g.EtherType && text(f.Protocol) == text(g.Protocol) &&
		number(f.PortMin) == number(g.PortMin) && number(f.PortMax) == number(g.PortMax) &&
		text(f.RemotePrefix) == text(g.RemotePrefix) && text(f.RemoteGroup) == text(g.RemoteGroup) &&
		text(f.RemoteAddrs) == text(g.RemoteAddrs)
}

func (c *Cloud) deleteRule(r *request) (reply, error) {
	rule, err := c.findRule(r)
	if err != nil {
		return reply{}, err
	}
	if g, found := c.securityGroups.get(rule.GroupID); found {
		g.rules = slices.DeleteFunc(g.rules, func(other *securityGroupRule) bool { return other == rule })
	}
	c.rules.remove(rule.id)
	return noContent(), nil
}
