package labcloud

import (
	"crypto/rand"
	"encoding/base64"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// vmState is Nova's vm_state: the state of a server without its current task.
type vmState string

const (
	vmBuilding vmState = "building"
	vmActive   vmState = "active"
	vmStopped  vmState = "stopped"
	vmShelved  vmState = "shelved_offloaded"
	vmResized  vmState = "resized"
	vmError    vmState = "error"
)

// status is Nova's status, as vm state and task determine it. A task that is not in the table, such as "deleting", has
// no effect.
func (s *server) status() string {
	switch s.task {
	case "rebooting":
		return "REBOOT"
	case "rebooting_hard":
		return "HARD_REBOOT"
	case "rebuilding":
		return "REBUILD"
	case "resize_prep":
		return "RESIZE"
	case "resize_reverting":
		return "REVERT_RESIZE"
	}
	switch s.vm {
	case vmBuilding:
		return "BUILD"
	case vmStopped:
		return "SHUTOFF"
	case vmShelved:
		return "SHELVED_OFFLOADED"
	case vmResized:
		return "VERIFY_RESIZE"
	case vmError:
		return "ERROR"
	}
	return "ACTIVE"
}

// power is Nova's power state: 0 none, 1 running, 4 shut down.
func (s *server) power() int {
	switch {
	case !s.placed:
		return 0
	case s.vm == vmStopped, s.vm == vmShelved:
		return 4
	}
	return 1
}

// serverView shows a server in full for the microversion. With alone, it adds the fields that lists omit.
func (c *Cloud) serverView(r *request, s *server, alone bool) object {
	v := c.serverCore(r, s)
	if !alone && !s.placed && (s.build.noValidHost || s.zone == "") {
		// A server without a host is in cell0, whose faults are missing in Nova's lists.
		delete(v, "fault")
	}
	v["addresses"] = s.addresses(true)
	maps.Copy(v, object{
		"OS-EXT-AZ:availability_zone": "", "config_drive": "", "key_name": nil,
		"OS-SRV-USG:launched_at": nil, "OS-SRV-USG:terminated_at": nil,
		"OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": string(s.vm), "OS-EXT-STS:power_state": s.power(),
		"os-extended-volumes:volumes_attached": []object{},
	})
	if s.placed {
		v["OS-EXT-AZ:availability_zone"], v["config_drive"] = s.zone, "True"
	}
	if s.vm == vmShelved {
		v["OS-EXT-AZ:availability_zone"] = "" // the server has no host
	}
	if s.keyName != "" {
		v["key_name"] = s.keyName
	}
	if !s.launched.IsZero() {
		v["OS-SRV-USG:launched_at"] = micro(s.launched)
	}
	if s.task != "" {
		v["OS-EXT-STS:task_state"] = s.task
	}
	if names := c.groupNames(s); len(names) > 0 && s.placed {
		v["security_groups"] = names
	}
	if r.version >= 9 {
		v["locked"] = s.locked
	}
	if r.version >= 73 {
		v["locked_reason"] = nullable(s.lockedReason)
	}
	if r.version >= 63 {
		v["trusted_image_certificates"] = nil
	}
	if r.version >= 71 && alone {
		v["server_groups"] = []string{}
		if s.group != "" {
			v["server_groups"] = []string{s.group}
		}
	}
	if r.version >= 90 {
		v["OS-EXT-SRV-ATTR:hostname"] = s.name
	}
	return v
}

// serverCore has the fields that the full view and the answer to a rebuild share.
func (c *Cloud) serverCore(r *request, s *server) object {
	status := s.status()
	v := object{
		"id": s.id, "name": s.name, "status": status, "tenant_id": c.projectID, "user_id": c.userID,
		"metadata": maps.Clone(s.metadata), "hostId": "", "image": object{
			"id": s.image, "links": []object{bookmark(r, "images", s.image)},
		},
		"created": seconds(s.created), "updated": seconds(s.updated),
		"accessIPv4": s.accessIPv4, "accessIPv6": "",
		"links": novaLinks(r, "servers", s.id), "OS-DCF:diskConfig": "MANUAL",
	}
	if r.version >= 47 {
		v["flavor"] = s.flavor.embedded()
	} else {
		v["flavor"] = object{"id": s.flavor.ID, "links": []object{bookmark(r, "flavors", s.flavor.ID)}}
	}
	if s.placed && s.vm != vmShelved {
		v["hostId"] = s.hostID
	}
	if slices.Contains([]string{"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE"}, status) {
		v["progress"] = 0
	}
	if s.fault != nil && status == "ERROR" {
		v["fault"] = object{"code": s.fault.code, "created": seconds(s.fault.at), "message": s.fault.message}
	}
	if r.version >= 19 {
		v["description"] = nullable(s.description)
	}
	if r.version >= 26 {
		v["tags"] = slices.Clone(s.tags)
	}
	return v
}

// rebuildView is the answer to a rebuild, which has fewer fields than the full view.
func (c *Cloud) rebuildView(r *request, s *server) object {
	v := c.serverCore(r, s)
	v["addresses"] = s.addresses(false)
	v["adminPass"] = adminPassword()
	if r.version >= 54 {
		v["key_name"] = nullable(s.keyName)
	}
	if r.version >= 57 {
		v["user_data"] = nullable(base64.StdEncoding.EncodeToString(s.userData))
	}
	return v
}

// nullable returns nil for an empty text.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// addresses returns a server's addresses by network, with Nova's extensions if extended.
func (s *server) addresses(extended bool) map[string][]object {
	byNetwork := map[string][]object{}
	if !s.placed {
		return byNetwork
	}
	for _, p := range s.ports {
		add := func(address, kind string) {
			a := object{"version": 4, "addr": address}
			if extended {
				a["OS-EXT-IPS:type"], a["OS-EXT-IPS-MAC:mac_addr"] = kind, p.mac
			}
			byNetwork[p.network.Name] = append(byNetwork[p.network.Name], a)
		}
		for _, ip := range p.fixedIPs {
			add(ip.IPAddress.String(), "fixed")
		}
		if p.floating != "" {
			add(p.floating, "floating")
		}
	}
	return byNetwork
}

// groupNames returns the names of the security groups of a server's ports.
func (c *Cloud) groupNames(s *server) []object {
	var names []object
	seen := make(map[string]bool)
	for _, p := range s.ports {
		for _, id := range p.groups {
			if g, found := c.securityGroups.get(id); found && !seen[g.name] {
				seen[g.name] = true
				names = append(names, object{"name": g.name})
			}
		}
	}
	return names
}

// adminPassword is made up and not accepted anywhere.
func adminPassword() string { return rand.Text()[:12] }

// machine returns a server in the hypervisor's form.
func (s *server) machine() Machine {
	m := Machine{
		ID: s.id, Name: s.name, ImageID: s.image, UserData: slices.Clone(s.userData),
		Metadata: maps.Clone(s.metadata), Flags: maps.Clone(s.build.flags), BootDelay: s.build.bootDelay,
	}
	if s.key != "" {
		m.AuthorizedKeys = []string{s.key}
	}
	for _, p := range s.ports {
		for _, ip := range p.fixedIPs {
			m.Addresses = append(m.Addresses, p.network.address(p.mac, ip))
		}
	}
	return m
}

// address returns one of a port's addresses in the hypervisor's form.
func (n *subnetwork) address(mac string, ip fixedIP) Address {
	return Address{MAC: mac, Prefix: netip.PrefixFrom(ip.IPAddress, n.CIDR.Bits()), Gateway: n.Gateway}
}

// fail puts a server into ERROR.
func (s *server) fail(code int, message string) {
	s.vm, s.task = vmError, ""
	s.fault = &serverFault{code: code, message: message, at: time.Now()}
	s.touch()
}
