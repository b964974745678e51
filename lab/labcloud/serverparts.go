package labcloud

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// serverPartRoutes are the routes below a server: metadata, tags, interfaces, volumes and history.
func (c *Cloud) serverPartRoutes() []route {
	const path = "/compute/v2.1/servers/{id}/"
	part := func(pattern string, handle func(*request, *server) (reply, error)) route {
		return route{compute, pattern, false, func(r *request) (reply, error) {
			s, err := c.findServer(r)
			if err != nil {
				if strings.HasPrefix(pattern[strings.Index(pattern, " ")+1:], path+"tags") {
					err = noMapping(r)
				}
				return reply{}, err
			}
			return handle(r, s)
		}}
	}
	return []route{
		part("GET "+path+"metadata", func(_ *request, s *server) (reply, error) { return showMetadata(s), nil }),
		part("POST "+path+"metadata", mergeMetadata),
		part("PUT "+path+"metadata", replaceMetadata),
		part("GET "+path+"metadata/{key}", showMetadatum),
		part("PUT "+path+"metadata/{key}", setMetadatum),
		part("DELETE "+path+"metadata/{key}", deleteMetadatum),
		part("GET "+path+"tags", withTags(showTags)),
		part("PUT "+path+"tags", withTags(replaceTags)),
		part("DELETE "+path+"tags", withTags(clearTags)),
		part("GET "+path+"tags/{tag}", withTags(checkTag)),
		part("PUT "+path+"tags/{tag}", withTags(addTag)),
		part("DELETE "+path+"tags/{tag}", withTags(deleteTag)),
		part("GET "+path+"os-interface", listInterfaces),
		part("GET "+path+"os-interface/{port}", showInterface),
		part("DELETE "+path+"os-interface/{port}", c.detachInterface),
		part("GET "+path+"os-volume_attachments", func(*request, *server) (reply, error) {
			return ok(object{"volumeAttachments": []object{}}), nil
		}),
		part("GET "+path+"os-instance-actions", c.listActions),
		part("GET "+path+"os-instance-actions/{request}", c.showAction),
	}
}

func showMetadata(s *server) reply { return ok(object{"metadata": maps.Clone(s.metadata)}) }

// metadataOf decodes the metadata in a request.
func metadataOf(r *request) (map[string]string, error) {
	var ask struct {
		Metadata map[string]string `json:"metadata"`
	}
	err := r.decode(&ask)
	return ask.Metadata, err
}

func mergeMetadata(r *request, s *server) (reply, error) {
	more, err := metadataOf(r)
	if err != nil {
		return reply{}, err
	}
	maps.Copy(s.metadata, more)
	return showMetadata(s), nil
}

func replaceMetadata(r *request, s *server) (reply, error) {
	all, err := metadataOf(r)
	if err != nil {
		return reply{}, err
	}
	s.metadata = make(map[string]string)
	maps.Copy(s.metadata, all)
	return showMetadata(s), nil
}

func showMetadatum(r *request, s *server) (reply, error) {
	key := r.PathValue("key")
	value, found := s.metadata[key]
	if !found {
		return reply{}, notFound("", "Metadata item was not found")
	}
	return ok(object{"meta": object{key: value}}), nil
}

func setMetadatum(r *request, s *server) (reply, error) {
	var ask struct {
		Meta map[string]string `json:"meta"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	key := r.PathValue("key")
	value, found := ask.Meta[key]
	if !found || len(ask.Meta) != 1 {
		return reply{}, badRequest("Request body and URI mismatch")
	}
	s.metadata[key] = value
	return ok(object{"meta": object{key: value}}), nil
}

func deleteMetadatum(r *request, s *server) (reply, error) {
	if _, err := showMetadatum(r, s); err != nil {
		return reply{}, err
	}
	delete(s.metadata, r.PathValue("key"))
	return noContent(), nil
}

// withTags omits a server's tags in microversions that have none.
func withTags(handle func(*request, *server) (reply, error)) func(*request, *server) (reply, error) {
	return func(r *request, s *server) (reply, error) {
		if r.version < 26 {
			return reply{}, notFound("", "The resource could not be found.")
		}
		return handle(r, s)
	}
}

func showTags(_ *request, s *server) (reply, error) {
	return ok(object{"tags": slices.Clone(s.tags)}), nil
}

func replaceTags(r *request, s *server) (reply, error) {
	var ask struct {
		Tags []string `json:"tags"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	s.tags = distinct(ask.Tags)
	return showTags(r, s)
}

func clearTags(_ *request, s *server) (reply, error) {
	s.tags = []string{}
	return noContent(), nil
}

func checkTag(r *request, s *server) (reply, error) {
	if !slices.Contains(s.tags, r.PathValue("tag")) {
		return reply{}, notFound("", "Instance %s has no tag '%s'", s.id, r.PathValue("tag"))
	}
	return noContent(), nil
}

func addTag(r *request, s *server) (reply, error) {
	if slices.Contains(s.tags, r.PathValue("tag")) {
		return noContent(), nil
	}
	s.tags = distinct(append(s.tags, r.PathValue("tag")))
	return reply{status: http.StatusCreated}, nil
}

func deleteTag(r *request, s *server) (reply, error) {
	if _, err := checkTag(r, s); err != nil {
		return reply{}, err
	}
	s.tags = slices.DeleteFunc(s.tags, func(tag string) bool { return tag == r.PathValue("tag") })
	return noContent(), nil
}

// interfaceView shows a port as an interface of its server.
func interfaceView(p *port) object {
	return object{
		"net_id": p.network.id, "port_id": p.id, "mac_addr": p.mac, "port_state": p.status(),
		"fixed_ips": slices.Clone(p.fixedIPs),
	}
}

func listInterfaces(_ *request, s *server) (reply, error) {
	views := []object{}
	for _, p := range s.ports {
		views = append(views, interfaceView(p))
	}
	return ok(object{"interfaceAttachments": views}), nil
}

func showInterface(r *request, s *server) (reply, error) {
	for _, p := range s.ports {
		if p.id == r.PathValue("port") {
			return ok(object{"interfaceAttachment": interfaceView(p)}), nil
		}
	}
	return reply{}, notFound("", "Port id %s could not be found.", r.PathValue("port"))
}

// detachInterface detaches a port of a stopped server. Nova also detaches those of running ones, which would have to be
// unplugged from the machine. Like Nova, it accepts a port that is not attached: nova-compute notices it later.
func (c *Cloud) detachInterface(r *request, s *server) (reply, error) {
	if err := s.checkLock(); err != nil {
		return reply{}, err
	}
	if err := s.checkState("detach_interface", vmStopped); err != nil {
		return reply{}, err
	}
	if i := slices.IndexFunc(s.ports, func(p *port) bool { return p.id == r.PathValue("port") }); i >= 0 {
		p := s.ports[i]
		s.ports = slices.Delete(slices.Clone(s.ports), i, i+1)
		c.disconnect([]*port{p})
	}
	return accepted(nil), nil
}

// actionView shows one entry of a server's history.
func (c *Cloud) actionView(r *request, s *server, a serverAction) object {
	v := object{
		"action": a.name, "instance_uuid": s.id, "request_id": a.requestID, "message": nil,
		"user_id": c.userID, "project_id": c.projectID, "start_time": micro(a.at),
	}
	if r.version >= 58 {
		v["updated_at"] = micro(a.at)
	}
	return v
}

// listActions answers with a server's history, newest first.
func (c *Cloud) listActions(r *request, s *server) (reply, error) {
	views := []object{}
	for _, a := range slices.Backward(s.actions) {
		views = append(views, c.actionView(r, s, a))
	}
	return ok(object{"instanceActions": views}), nil
}

// showAction answers with one entry; the cloud keeps no events for it.
func (c *Cloud) showAction(r *request, s *server) (reply, error) {
	for _, a := range s.actions {
		if a.requestID == r.PathValue("request") {
			v := c.actionView(r, s, a)
			v["events"] = []object{}
			return ok(object{"instanceAction": v}), nil
		}
	}
	return reply{}, notFound("", "Action for request_id %s on instance %s not found", r.PathValue("request"), s.id)
}
