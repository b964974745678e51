package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// reads are checks of answers that change nothing.
func reads() []check {
	return []check{
		{name: "microversions", run: microversions},
		{name: "the version of Nova", run: func(s *session) error {
			s.version = ""
			body, err := s.get("compute/")
			return errors.Join(err, has("version", field(body, "version"),
				object{"id": "v2.1", "version": "2.93", "min_version": "2.1", "status": "CURRENT"}))
		}},
		{name: "a server shows what its microversion has", reads: true, run: shownByVersion},
		{name: "servers in pages", run: serverPages},
		{name: "ports in pages", run: func(s *session) error {
			var err error
			for range 3 {
				_, e := s.want(http.StatusCreated, http.MethodPost, "network/ports",
					`{"port":{"network_id":"{cluster}","name":"check"}}`)
				err = errors.Join(err, e)
			}
			body, e := s.get("network/ports?name=check&limit=2")
			if err = errors.Join(err, e); err != nil {
				return err
			}
			links := items(body, "ports_links")
			if len(links) == 0 || text(links[0], "rel") != "next" {
				return fmt.Errorf("links: %v", links)
			}
			rest, err := s.get(text(links[0], "href"))
			return errors.Join(err, same("first page", 2, len(items(body, "ports"))),
				same("last page", 1, len(items(rest, "ports"))))
		}},
		{name: "images in pages", run: func(s *session) error {
			body, err := s.get("image/images?limit=1")
			if err != nil {
				return err
			}
			next := text(body, "next")
			err = hasPrefix("next", next, "/v2/images?")
			rest, e := s.get("image/" + next[min(len(next), len("/v2/")):])
			return errors.Join(err, e, same("first page", 1, len(items(body, "images"))),
				same("second page", 1, len(items(rest, "images"))))
		}},
		{name: "filters of servers", reads: true, run: filters},
		{name: "servers by patterns of names", run: func(s *session) error {
			s.name = "node12"
			err := s.running()
			for pattern, want := range map[string]int{
				"^node[1][2]$": 1, "^node[01][234]$": 1, "^node[1][34]$": 0, "^node[12]$": 0, "^node12$": 1, "^node1$": 0,
				"^(node12|node13)$": 0, "^node[12][2]?$": 1, "^node[12]3?$": 0,
			} {
				for _, list := range []string{"compute/servers?name=", "compute/servers/detail?name="} {
					body, e := s.get(list + pattern)
					err = errors.Join(err, e, same(list+pattern, want, len(items(body, "servers"))))
				}
			}
			return err
		}},
		{name: "the console", reads: true, run: func(s *session) error {
			a, err := s.want(http.StatusOK, http.MethodPost, "compute/servers/{server}/action",
				`{"os-getConsoleOutput":{"length":5}}`)
			if err == nil && text(a.body, "output") == "" {
				err = fmt.Errorf("no console: %s", a.text)
			}
			return err
		}},
		{name: "interfaces and ports of a server", reads: true, run: interfaces},
		{name: "flavors", run: func(s *session) error {
			s.version = ""
			body, err := s.get("compute/flavors/{small}")
			list, e := s.get("compute/flavors/detail?minRam=1000")
			names := values(items(list, "flavors"), "name")
			slices.Sort(names)
			all, e2 := s.get("compute/flavors/detail?is_public=None")
			err = errors.Join(err, e, e2, same("all flavors", 3, len(items(all, "flavors"))))
			return errors.Join(err, has("flavor", field(body, "flavor"), object{
				"name": "small", "vcpus": 1.0, "ram": 512.0, "disk": 1.0, "swap": "", "rxtx_factor": 1.0,
				"OS-FLV-EXT-DATA:ephemeral": 0.0, "OS-FLV-DISABLED:disabled": false,
				"os-flavor-access:is_public": true,
			}), same("flavors of at least 1000 MiB", []string{"big", "huge"}, names))
		}},
		{name: "networks by name", run: func(s *session) error {
			var err error
			for name, want := range map[string]int{"cluster": 1, "CLUSTER": 1, "clust": 0, "^cluster$": 0} {
				list, e := s.get("network/networks?name=" + name)
				err = errors.Join(err, e, same(name, want, len(items(list, "networks"))))
			}
			return err
		}},
		{name: "images", run: func(s *session) error {
			body, err := s.get("image/images/{node-v1}")
			list, e := s.get("image/images?name=node")
			upper, e2 := s.get("image/images?name=NODE-V1")
			err = errors.Join(err, e2, same("images by a name in upper case", 1, len(items(upper, "images"))))
			return errors.Join(err, e, has("image", body, object{
				"name": "node-v1", "status": "active", "visibility": "public", "disk_format": "raw",
				"container_format": "bare", "os_hash_algo": "sha512", "protected": false, "min_disk": 0.0,
			}), same("images by a part of a name", 0, len(items(list, "images"))))
		}},
		{name: "limits and quota in use", run: func(s *session) error {
			if err := s.running(); err != nil {
				return err
			}
			body, err := s.get("compute/limits")
			absolute := field(field(body, "limits"), "absolute")
			return errors.Join(err, has("limits", absolute, object{
				"maxTotalCores": -1.0, "maxTotalInstances": -1.0, "totalCoresUsed": 1.0, "totalInstancesUsed": 1.0,
				"totalRAMUsed": 512.0,
			}))
		}},
		{name: "the catalog", run: func(s *session) error {
			a, err := s.send(http.MethodGet, "identity/auth/tokens", "", func(h http.Header) {
				h.Set("X-Auth-Token", s.compute.Token())
				h.Set("X-Subject-Token", s.compute.Token())
			})
			kinds := values(items(field(a.body, "token"), "catalog"), "type")
			for _, kind := range []string{"compute", "identity", "image", "network"} {
				if !slices.Contains(kinds, kind) {
					err = errors.Join(err, fmt.Errorf("no %s in %v", kind, kinds))
				}
			}
			return errors.Join(err, same("status", http.StatusOK, a.status))
		}},
	}
}

// microversions checks that requests choose a microversion, and that answers name it.
func microversions(s *session) error {
	for _, v := range []struct{ asked, want string }{{"", "2.1"}, {"2.79", "2.79"}, {"latest", "2.93"}} {
		s.version = v.asked
		a, err := s.want(http.StatusOK, http.MethodGet, "compute/servers", "")
		if err := errors.Join(err, same("version", "compute "+v.want, a.header.Get("OpenStack-API-Version")),
			same("old header", v.want, a.header.Get("X-OpenStack-Nova-API-Version"))); err != nil {
			return fmt.Errorf("asked for %q: %w", v.asked, err)
		}
	}
	return nil
}

// shownByVersion checks which keys a server has at which microversion.
func shownByVersion(s *session) error {
	var errs []error
	for _, v := range []struct {
		version     string
		has, hasNot []string
	}{
		{"", nil, []string{"locked", "description", "tags", "server_groups", "locked_reason"}},
		{"2.9", []string{"locked"}, []string{"description"}},
		{"2.19", []string{"description"}, []string{"tags"}},
		{"2.26", []string{"tags"}, []string{"trusted_image_certificates"}},
		{"2.63", []string{"trusted_image_certificates"}, []string{"server_groups"}},
		{"2.71", []string{"server_groups"}, []string{"locked_reason"}},
		{"2.73", []string{"locked_reason"}, []string{"OS-EXT-SRV-ATTR:hostname"}},
		{"2.90", []string{"OS-EXT-SRV-ATTR:hostname"}, nil},
	} {
		s.version = v.version
		server, err := s.show()
		errs = append(errs, err)
		for _, key := range v.has {
			if _, found := server[key]; !found {
				errs = append(errs, fmt.Errorf("no %s at %q", key, v.version))
			}
		}
		for _, key := range v.hasNot {
			if _, found := server[key]; found {
				errs = append(errs, fmt.Errorf("%s at %q", key, v.version))
			}
		}
	}
	return errors.Join(errs...)
}

// serverPages follows the links from page to page.
func serverPages(s *session) error {
	for range 5 {
		if err := s.running(); err != nil { // Nova may list a server on two pages while it moves to its cell
			return err
		}
	}
	var all []string
	next := "compute/servers?name=^check$&limit=2"
	for pages := 1; next != ""; pages++ {
		body, err := s.get(next)
		if err != nil {
			return err
		}
		found := items(body, "servers")
		all = append(all, values(found, "id")...)
		if len(found) > 2 || pages > 3 {
			return fmt.Errorf("page %d has %d servers", pages, len(found))
		}
		next = ""
		for _, link := range items(body, "servers_links") {
			next = text(link, "href")
		}
	}
	whole, err := s.get("compute/servers?name=^check$")
	return errors.Join(err, same("the pages together", values(items(whole, "servers"), "id"), all),
		same("servers", 5, len(all)))
}

// filters checks filters of the list of servers. MariaDB evaluates the names, in which Nova escapes each |.
func filters(s *session) error {
	server, err := s.show()
	if err != nil {
		return err
	}
	address := text(first(field(server, "addresses"), "cluster"), "addr")
	for query, want := range map[string]int{
		"name=^sha": 1, "name=^red$": 0,
		"status=active": 1, "status=ERROR": 0, "flavor={small}": 1, "flavor={big}": 0,
		"image={node-v1}": 1, "image={node-v2}": 0, "uuid={server}": 1, "ip=" + address: 1,
		"name=^shared$": 1, "name=^SHARED$": 1, "name=^[-s]?s[ah][abc]re[de]x?[-9]?$": 1, "name=^[st]harex$": 0,
		"name=^(shared|red)$": 0, "name=shared|red": 0, `name=^(red\|shared)$`: 1,
	} {
		body, e := s.get("compute/servers?" + query)
		err = errors.Join(err, e, same(query, want, len(items(body, "servers"))))
	}
	return err
}

// interfaces checks the ports that Nova makes.
func interfaces(s *session) error {
	body, err := s.get("compute/servers/{server}/os-interface")
	ports, e := s.get("network/ports?device_id={server}")
	if err = errors.Join(err, e); err != nil {
		return err
	}
	attached, found := items(body, "interfaceAttachments"), items(ports, "ports")
	if len(attached) != 1 || len(found) != 1 {
		return fmt.Errorf("interfaces %v, ports %v", attached, found)
	}
	volumes, err := s.get("compute/servers/{server}/os-volume_attachments")
	return errors.Join(err,
		has("interface", attached[0], object{"port_id": found[0]["id"], "mac_addr": found[0]["mac_address"],
			"port_state": "ACTIVE", "net_id": s.ids["{cluster}"]}),
		has("port", found[0], object{"status": "ACTIVE", "device_owner": "compute:nova", "name": "",
			"port_security_enabled": true, "admin_state_up": true}),
		same("volumes", 0, len(items(volumes, "volumeAttachments"))))
}
