package labcloud

import (
	"encoding/json"
	"slices"

	"github.com/google/uuid"
)

// usualZone is the zone of a cloud for which none is declared, as in Nova.
const usualZone = "nova"

// The policies of a server group (Nova, Server groups).
const (
	affinity         = "affinity"
	antiAffinity     = "anti-affinity"
	softAffinity     = "soft-affinity"
	softAntiAffinity = "soft-anti-affinity"
)

// serverGroup is a set of servers that the scheduler puts on one host, or on different ones.
type serverGroup struct{ id, name, policy string }

// hints are the scheduler hints that have an effect. Nova accepts others, which its filters read.
type hints struct {
	group               string   // id of a server group
	different, together []string // ids of servers
}

// parseHints reads os:scheduler_hints, in which a list of one server may be a text.
func parseHints(text json.RawMessage) (h hints, err error) {
	if len(text) == 0 {
		return h, nil
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return h, badRequest("Invalid input for field/attribute os:scheduler_hints")
	}
	h.group, _ = all["group"].(string)
	h.different, h.together = hintList(all["different_host"]), hintList(all["same_host"])
	return h, nil
}

func hintList(hint any) (ids []string) {
	switch hint := hint.(type) {
	case string:
		return []string{hint}
	case []any:
		for _, id := range hint {
			if id, ok := id.(string); ok {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// schedule chooses the zone of a new server. Each zone has one host. Like Nova, it accepts the request if no host
// suits: the server has no zone then, and goes to ERROR.
func (c *Cloud) schedule(s *server, zone string, text json.RawMessage) error {
	h, err := parseHints(text)
	if err != nil {
		return err
	}
	zones := c.cfg.Zones
	switch {
	case zone == "":
	case slices.Contains(zones, zone):
		zones = []string{zone}
	default:
		return badRequest("The requested availability zone is not available")
	}
	var group serverGroup
	if h.group != "" {
		var found bool
		if group, found = c.serverGroups.get(h.group); !found {
			return badRequest("Instance group %s could not be found.", h.group)
		}
	}
	s.group = group.id
	suits := func(zone string) bool {
		return !slices.ContainsFunc(h.different, func(id string) bool { return c.zoneOf(id) == zone }) &&
			!slices.ContainsFunc(h.together, func(id string) bool { return c.zoneOf(id) != zone }) &&
			(group.policy != antiAffinity || c.members(group.id, zone) == 0) &&
			(group.policy != affinity || c.members(group.id, zone) == c.members(group.id, ""))
	}
	zones = slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return !suits(zone) })
	if len(zones) == 0 {
		return nil
	}
	fewer := func(a, b string) int { return c.members(group.id, a) - c.members(group.id, b) }
	s.zone = zones[0]
	switch group.policy {
	case softAntiAffinity:
		s.zone = slices.MinFunc(zones, fewer)
	case softAffinity:
		s.zone = slices.MaxFunc(zones, fewer)
	}
	s.hostID = hostID(c.projectID, s.zone)
	return nil
}

// zoneOf returns the zone of a server; empty if there is none.
func (c *Cloud) zoneOf(id string) string {
	if s, found := c.servers.get(id); found {
		return s.zone
	}
	return ""
}

// members returns the number of servers of a server group in a zone; in all zones if it is empty.
func (c *Cloud) members(group, zone string) (n int) {
	for _, s := range c.servers.all() {
		if s.group == group && s.zone != "" && (zone == "" || s.zone == zone) {
			n++
		}
	}
	return n
}

func (c *Cloud) schedulerRoutes() []route {
	return []route{
		{compute, "GET /compute/v2.1/os-availability-zone", false, c.listZones},
		{compute, "GET /compute/v2.1/os-server-groups", false, c.listServerGroups},
		{compute, "POST /compute/v2.1/os-server-groups", false, c.createServerGroup},
		{compute, "DELETE /compute/v2.1/os-server-groups/{id}", false, c.deleteServerGroup},
	}
}

func (c *Cloud) listZones(*request) (reply, error) {
	all := []object{}
	for _, zone := range c.cfg.Zones {
		all = append(all, object{"zoneName": zone, "zoneState": object{"available": true}, "hosts": nil})
	}
	return ok(object{"availabilityZoneInfo": all}), nil
}

// withPolicy is the microversion from which on a server group has one policy, with rules, instead of a list.
const withPolicy = 64

func (c *Cloud) serverGroupView(r *request, g serverGroup) object {
	members := []string{}
	for id, s := range c.servers.all() {
		if s.group == g.id {
			members = append(members, id)
		}
	}
	v := object{"id": g.id, "name": g.name, "members": members}
	if r.version >= 13 {
		v["project_id"], v["user_id"] = c.projectID, c.userID
	}
	if r.version >= withPolicy {
		v["policy"], v["rules"] = g.policy, object{}
	} else {
		v["policies"], v["metadata"] = []string{g.policy}, object{}
	}
	return v
}

func (c *Cloud) listServerGroups(r *request) (reply, error) {
	views := []object{}
	for _, g := range c.serverGroups.all() {
		views = append(views, c.serverGroupView(r, g))
	}
	return ok(object{"server_groups": views}), nil
}

func (c *Cloud) createServerGroup(r *request) (reply, error) {
	var ask struct {
		Group struct {
			Name     string         `json:"name"`
			Policy   string         `json:"policy"`
			Policies []string       `json:"policies"`
			Rules    map[string]any `json:"rules"`
		} `json:"server_group"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	g := serverGroup{id: uuid.NewString(), name: ask.Group.Name, policy: ask.Group.Policy}
	if r.version < withPolicy && len(ask.Group.Policies) == 1 {
		g.policy = ask.Group.Policies[0]
	}
	switch {
	case g.name == "":
		return reply{}, badRequest("Invalid input for field/attribute name. Value: . '' is too short")
	case !slices.Contains([]string{affinity, antiAffinity, softAffinity, softAntiAffinity}, g.policy):
		return reply{}, badRequest("Invalid input for field/attribute policy. Value: %s. '%[1]s' is not one of "+
			"['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity']", g.policy)
	}
	c.serverGroups.add(g.id, g)
	return ok(object{"server_group": c.serverGroupView(r, g)}), nil
}

func (c *Cloud) deleteServerGroup(r *request) (reply, error) {
	id := r.PathValue("id")
	if _, found := c.serverGroups.get(id); !found {
		return reply{}, notFound("", "Instance group %s could not be found.", id)
	}
	c.serverGroups.remove(id)
	return noContent(), nil
}
