package labcloud

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resource is the interface that all of Neutron's resources have.
type resource interface {
	// has reports whether an attribute has a value; known is false if lists
	// cannot be filtered by that attribute.
	has(name, value string) (matched, known bool)
	// record has the tags, description and times of a resource.
	record() *stamp
	view() object
}

// stamp is the part that all resources share.
type stamp struct {
	id, name, description string
	project               string
	tags                  []string
	created, updated      time.Time
	revision              int
}

func newStamp(id, name, description, project string) stamp {
	now := time.Now()
	return stamp{id: id, name: name, description: description, project: project,
		tags: []string{}, created: now, updated: now}
}

func (s *stamp) record() *stamp { return s }

// touch marks a change.
func (s *stamp) touch() {
	s.updated = time.Now()
	s.revision++
}

// has reports whether a filter is known and matches. MariaDB compares text without case.
func (s *stamp) has(name, value string) (matched, known bool) {
	switch name {
	case "id":
		return s.id == value, true
	case "name":
		return strings.EqualFold(s.name, value), true
	case "description":
		return strings.EqualFold(s.description, value), true
	case "tenant_id", "project_id":
		return s.project == value, true
	case "revision_number":
		return strconv.Itoa(s.revision) == value, true
	}
	return false, false
}

// isBool reports whether a filter's value means b: clients write booleans in the case of their language.
func isBool(b bool, value string) bool { return strings.EqualFold(strconv.FormatBool(b), value) }

// with adds the stamp's fields to a view.
func (s *stamp) with(v object) object {
	v["id"], v["name"], v["description"] = s.id, s.name, s.description
	v["tenant_id"], v["project_id"] = s.project, s.project
	v["tags"], v["revision_number"] = slices.Clone(s.tags), s.revision
	v["created_at"], v["updated_at"] = seconds(s.created), seconds(s.updated)
	return v
}

// listResources answers a list of Neutron's: filters are ORed within one name
// and ANDed between names.
func listResources[T resource](r *request, key string, all *table[T]) (reply, error) {
	q := r.URL.Query()
	p, err := takePaging(q, 0)
	if err != nil {
		return reply{}, err
	}
	var unknown error
	items := all.all()
	if ids := q["id"]; len(ids) > 0 {
		items = all.some(ids) // the provider's most frequent query must not scan all items
	}
	found, next, err := page(items, p, func(item T) bool {
		matched, err := resourceMatches(item, q)
		if err != nil {
			unknown = err
		}
		return matched
	})
	if unknown != nil {
		return reply{}, unknown
	}
	if err != nil {
		return reply{}, err
	}
	views := []object{}
	for _, item := range found {
		views = append(views, item.view())
	}
	body := object{key: views}
	if next != "" {
		body[key+"_links"] = []object{{"rel": "next", "href": r.nextURL(next)}}
	}
	return ok(body), nil
}

// resourceMatches reports whether an item matches all filters of a query.
func resourceMatches(item resource, q url.Values) (bool, error) {
	all := true
	for name, wanted := range q {
		if matched, known := matchTags(name, wanted[0], item.record().tags); known {
			all = all && matched
			continue
		}
		some := false
		for _, value := range wanted {
			matched, known := item.has(name, value)
			if !known {
				return false, badRequest("['%s'] is invalid attribute for filtering", name)
			}
			some = some || matched
		}
		all = all && some
	}
	return all, nil
}

// tagRoutes are the tags of one kind of resource; find finds the resource named in a path.
func tagRoutes[T resource](path string, find func(*request) (T, error)) []route {
	return []route{
		{network, "GET " + path + "/{id}/tags", false, func(r *request) (reply, error) {
			item, err := find(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"tags": slices.Clone(item.record().tags)}), nil
		}},
		{network, "PUT " + path + "/{id}/tags", false, func(r *request) (reply, error) {
			var ask struct {
				Tags []string `json:"tags"`
			}
			item, err := find(r)
			if err != nil {
				return reply{}, err
			}
			if err := r.decode(&ask); err != nil {
				return reply{}, err
			}
			item.record().tags = distinct(ask.Tags)
			item.record().touch()
			return ok(object{"tags": slices.Clone(item.record().tags)}), nil
		}},
		{network, "PUT " + path + "/{id}/tags/{tag}", false, func(r *request) (reply, error) {
			item, err := find(r)
			if err != nil {
				return reply{}, err
			}
			item.record().tags = distinct(append(item.record().tags, r.PathValue("tag")))
			item.record().touch()
			return reply{status: http.StatusCreated}, nil
		}},
		{network, "DELETE " + path + "/{id}/tags/{tag}", false, func(r *request) (reply, error) {
			item, err := find(r)
			if err != nil {
				return reply{}, err
			}
			tags := item.record().tags
			if !slices.Contains(tags, r.PathValue("tag")) {
				return reply{}, notFound("TagNotFound", "Tag %s could not be found.", r.PathValue("tag"))
			}
			item.record().tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == r.PathValue("tag") })
			item.record().touch()
			return noContent(), nil
		}},
	}
}

// distinct returns the distinct tags in order; never nil, since JSON needs a list.
func distinct(tags []string) []string {
	set := append([]string{}, tags...)
	slices.Sort(set)
	return slices.Compact(set)
}

func (c *Cloud) networkRoutes() []route {
	return []route{
		{network, "GET /network/{$}", true, func(r *request) (reply, error) {
			return ok(object{"versions": []object{{
				"id": "v2.0", "status": "CURRENT",
				"links": []object{{"rel": "self", "href": r.base + "/network/v2.0/"}},
			}}}), nil
		}},
		{network, "GET /network/v2.0/networks", false, func(r *request) (reply, error) {
			return listResources(r, "networks", c.networkViews())
		}},
		{network, "GET /network/v2.0/networks/{id}", false, func(r *request) (reply, error) {
			n, found := c.networkViews().get(r.PathValue("id"))
			if !found {
				return reply{}, networkNotFound(r.PathValue("id"))
			}
			return ok(object{"network": n.view()}), nil
		}},
		{network, "GET /network/v2.0/subnets", false, func(r *request) (reply, error) {
			return listResources(r, "subnets", c.subnetViews())
		}},
		{network, "GET /network/v2.0/subnets/{id}", false, func(r *request) (reply, error) {
			s, found := c.subnetViews().get(r.PathValue("id"))
			if !found {
				return reply{}, notFound("SubnetNotFound", "Subnet %s could not be found.", r.PathValue("id"))
			}
			return ok(object{"subnet": s.view()}), nil
		}},
	}
}

func networkNotFound(id string) error {
	return notFound("NetworkNotFound", "Network %s could not be found.", id)
}

// networkViews and subnetViews are the two views of a subnetwork. They are few, so they are made for each call.
func (c *Cloud) networkViews() *table[networkFace] {
	var faces table[networkFace]
	for id, n := range c.networks.all() {
		faces.add(id, networkFace{c.face(id, n.Name), n})
	}
	return &faces
}

func (c *Cloud) subnetViews() *table[subnetFace] {
	var faces table[subnetFace]
	for _, n := range c.networks.all() {
		faces.add(n.subnetID, subnetFace{c.face(n.subnetID, n.Name), n})
	}
	return &faces
}

// face is the stamp of a resource that exists from the beginning.
func (c *Cloud) face(id, name string) *stamp {
	return &stamp{id: id, name: name, project: c.projectID, tags: []string{}, created: c.begun, updated: c.begun}
}

// networkFace shows a subnetwork as a network.
type networkFace struct {
	*stamp
	n *subnetwork
}

func (f networkFace) has(name, value string) (matched, known bool) {
	switch name {
	case "status":
		return value == "ACTIVE", true
	case "admin_state_up":
		return isBool(true, value), true
	case "shared":
		return isBool(false, value), true
	case "router:external":
		return isBool(f.n.External, value), true
	}
	return f.stamp.has(name, value)
}

func (f networkFace) view() object {
	return f.with(object{
		"admin_state_up": true, "mtu": 1500, "status": "ACTIVE", "subnets": []string{f.n.subnetID},
		"shared": false, "availability_zone_hints": []string{}, "availability_zones": []string{},
		"ipv4_address_scope": nil, "ipv6_address_scope": nil, "router:external": f.n.External,
		"port_security_enabled": true,
	})
}

// subnetFace shows a subnetwork as a subnet.
type subnetFace struct {
	*stamp
	n *subnetwork
}

func (f subnetFace) has(name, value string) (matched, known bool) {
	switch name {
	case "network_id":
		return f.n.id == value, true
	case "cidr":
		return f.n.CIDR.Masked().String() == value, true
	case "ip_version":
		return value == "4", true
	case "gateway_ip":
		return f.gateway() == value, true
	case "enable_dhcp":
		return isBool(false, value), true
	}
	return f.stamp.has(name, value)
}

// gateway is the router's address, or empty.
func (f subnetFace) gateway() string {
	if !f.n.Gateway.IsValid() {
		return ""
	}
	return f.n.Gateway.String()
}

func (f subnetFace) view() object {
	v := f.with(object{
		"network_id": f.n.id, "ip_version": 4, "subnetpool_id": nil, "enable_dhcp": false,
		"ipv6_ra_mode": nil, "ipv6_address_mode": nil, "gateway_ip": nil, "cidr": f.n.CIDR.Masked().String(),
		"allocation_pools": []object{{"start": f.n.first.String(), "end": f.n.last.String()}},
		"host_routes":      []object{}, "dns_nameservers": []string{}, "service_types": []string{},
	})
	if gateway := f.gateway(); gateway != "" {
		v["gateway_ip"] = gateway
	}
	return v
}
