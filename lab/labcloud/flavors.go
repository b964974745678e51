package labcloud

import (
	"strconv"
)

// flavorRoutes are Nova's version documents and flavors, which only operators can change.
func (c *Cloud) flavorRoutes() []route {
	return []route{
		{compute, "GET /compute/{$}", true, novaVersions},
		{compute, "GET /compute/v2.1", true, novaDocument},
		{compute, "GET /compute/v2.1/{$}", true, novaDocument},
		{compute, "GET /compute/v2.1/flavors", false, c.listFlavors},
		{compute, "GET /compute/v2.1/flavors/detail", false, c.listFlavors},
		{compute, "GET /compute/v2.1/flavors/{id}", false, c.showFlavor},
		{compute, "GET /compute/v2.1/flavors/{id}/os-extra_specs", false, c.showExtraSpecs},
	}
}

func novaVersion(r *request) object {
	return object{
		"id": "v2.1", "status": "CURRENT", "version": newest.String(), "min_version": oldest.String(),
		"updated": "2013-07-23T11:33:21Z",
		"links":   []object{{"rel": "self", "href": r.base + "/compute/v2.1/"}},
	}
}

func novaVersions(r *request) (reply, error) {
	return ok(object{"versions": []object{novaVersion(r)}}), nil
}

func novaDocument(r *request) (reply, error) {
	v := novaVersion(r)
	v["links"] = append(v["links"].([]object),
		object{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
	v["media-types"] = []object{{
		"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1",
	}}
	return ok(object{"version": v}), nil
}

// novaLinks are the two links that Nova adds to each resource.
func novaLinks(r *request, kind, id string) []object {
	return []object{
		{"rel": "self", "href": r.base + "/compute/v2.1/" + kind + "/" + id},
		bookmark(r, kind, id),
	}
}

func bookmark(r *request, kind, id string) object {
	return object{"rel": "bookmark", "href": r.base + "/compute/" + kind + "/" + id}
}

// listFlavors answers both the brief and the detailed list.
func (c *Cloud) listFlavors(r *request) (reply, error) {
	q := r.URL.Query()
	p, err := takePaging(q, maxPage)
	if err != nil {
		return reply{}, err
	}
	least := map[string]int{"minRam": 0, "minDisk": 0}
	for name := range q {
		if _, known := least[name]; known {
			if least[name], err = strconv.Atoi(q.Get(name)); err != nil {
				return reply{}, badRequest("Invalid %s filter [%s]", name, q.Get(name))
			}
		} else if name != "is_public" {
			return reply{}, badRequest("Additional properties are not allowed ('%s' was unexpected)", name)
		}
	}
	// Every flavor is public, so only the value "false" hides any.
	public, err := strconv.ParseBool(q.Get("is_public"))
	hidden := err == nil && !public
	found, next, err := page(c.state.flavors.all(), p, func(f Flavor) bool {
		return f.RAM >= least["minRam"] && f.Disk >= least["minDisk"] && !hidden
	})
	if err != nil {
		return reply{}, err
	}
	views := []object{}
	for _, f := range found {
		if r.Pattern == "GET /compute/v2.1/flavors" {
			views = append(views, object{"id": f.ID, "name": f.Name, "links": novaLinks(r, "flavors", f.ID)})
		} else {
			views = append(views, f.view(r))
		}
	}
	body := object{"flavors": views}
	if next != "" {
		body["flavors_links"] = []object{{"rel": "next", "href": r.nextURL(next)}}
	}
	return ok(body), nil
}

// view is the flavor in full.
func (f Flavor) view(r *request) object {
	v := object{
		"id": f.ID, "name": f.Name, "ram": f.RAM, "disk": f.Disk, "vcpus": f.VCPUs, "swap": "",
		"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
		"os-flavor-access:is_public": true, "rxtx_factor": 1.0,
		"links": novaLinks(r, "flavors", f.ID),
	}
	if r.version >= 55 {
		v["description"] = nil
	}
	if r.version >= 61 {
		v["extra_specs"] = f.extraSpecs()
	}
	if r.version >= 75 {
		v["swap"] = 0
	}
	return v
}

// embedded is the flavor as a server shows it from 2.47 on: as it was when the server was made, without the id.
func (f Flavor) embedded() object {
	return object{
		"vcpus": f.VCPUs, "ram": f.RAM, "disk": f.Disk, "ephemeral": 0, "swap": 0,
		"original_name": f.Name, "extra_specs": f.extraSpecs(),
	}
}

// extraSpecs are never null in answers.
func (f Flavor) extraSpecs() map[string]string {
	if f.ExtraSpecs == nil {
		return map[string]string{}
	}
	return f.ExtraSpecs
}

// findFlavor finds the flavor named in a path.
func (c *Cloud) findFlavor(r *request) (Flavor, error) {
	f, found := c.state.flavors.get(r.PathValue("id"))
	if !found {
		return f, notFound("", "Flavor %s could not be found.", r.PathValue("id"))
	}
	return f, nil
}

func (c *Cloud) showFlavor(r *request) (reply, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"flavor": f.view(r)}), nil
}

func (c *Cloud) showExtraSpecs(r *request) (reply, error) {
	f, err := c.findFlavor(r)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"extra_specs": f.extraSpecs()}), nil
}
