package labcloud

import (
	"github.com/google/uuid"
)

// floatingIP is an address of an external network that is associated with a port. The lab stores the association but
// translates no addresses.
type floatingIP struct {
	stamp
	network *subnetwork
	ip      fixedIP
	// port is the associated port; nil if there is none.
	port *port
}

func (c *Cloud) floatingIPRoutes() []route {
	const path = "/network/v2.0/floatingips"
	return append([]route{
		{network, "GET " + path, false, func(r *request) (reply, error) {
			return listResources(r, "floatingips", &c.floatingIPs)
		}},
		{network, "POST " + path, false, c.createFloatingIP},
		{network, "GET " + path + "/{id}", false, func(r *request) (reply, error) {
			f, err := c.findFloatingIP(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"floatingip": f.view()}), nil
		}},
		{network, "PUT " + path + "/{id}", false, c.updateFloatingIP},
		{network, "DELETE " + path + "/{id}", false, func(r *request) (reply, error) {
			f, err := c.findFloatingIP(r)
			if err != nil {
				return reply{}, err
			}
			f.attach(nil)
			f.network.release([]fixedIP{f.ip})
			c.floatingIPs.remove(f.id)
			return noContent(), nil
		}},
	}, tagRoutes(path, c.findFloatingIP)...)
}

// findFloatingIP finds the floating IP named in a path.
func (c *Cloud) findFloatingIP(r *request) (*floatingIP, error) {
	f, found := c.floatingIPs.get(r.PathValue("id"))
	if !found {
		return nil, notFound("FloatingIPNotFound", "Floating IP %s could not be found", r.PathValue("id"))
	}
	return f, nil
}

// attach associates the floating IP with a port, or with none if it is nil.
func (f *floatingIP) attach(p *port) {
	if f.port != nil {
		f.port.floating = ""
	}
	f.port = p
	if p != nil {
		p.floating = f.ip.IPAddress.String()
	}
	f.touch()
}

func (f *floatingIP) has(name, value string) (matched, known bool) {
	switch name {
	case "floating_ip_address":
		return f.ip.IPAddress.String() == value, true
	case "floating_network_id":
		return f.network.id == value, true
	case "port_id":
		return f.port != nil && f.port.id == value, true
	case "status":
		return f.status() == value, true
	}
	return f.stamp.has(name, value)
}

func (f *floatingIP) status() string {
	if f.port == nil {
		return "DOWN"
	}
	return "ACTIVE"
}

func (f *floatingIP) view() object {
	v := f.with(object{
		"floating_ip_address": f.ip.IPAddress, "floating_network_id": f.network.id, "status": f.status(),
		"router_id": nil, "port_id": nil, "fixed_ip_address": nil, "port_details": nil,
	})
	if p := f.port; p != nil {
		v["port_id"] = p.id
		if len(p.fixedIPs) > 0 {
			v["fixed_ip_address"] = p.fixedIPs[0].IPAddress
		}
		v["port_details"] = object{
			"status": p.status(), "name": p.name, "admin_state_up": !p.down, "network_id": p.network.id,
			"device_owner": p.deviceOwner, "mac_address": p.mac, "device_id": p.deviceID,
		}
	}
	delete(v, "name")
	return v
}

// floatingFields are the fields of a floating IP in a request. A PortID of null removes the association.
type floatingFields struct {
	PortID      *string `json:"port_id"`
	Description *string `json:"description"`
	// FixedIP may only be the port's first address, which is also the default.
	FixedIP string `json:"fixed_ip_address"`
}

// portFor returns the port to associate a floating IP with, which may be its present port; own is the floating IP's
// address.
func (c *Cloud) portFor(f floatingFields, own string) (*port, error) {
	if f.PortID == nil || *f.PortID == "" {
		return nil, nil
	}
	p, found := c.ports.get(*f.PortID)
	if !found {
		return nil, notFound("PortNotFound", "Port %s could not be found.", *f.PortID)
	}
	if p.floating != "" && p.floating != own {
		return nil, conflict("FloatingIPPortAlreadyAssociated", "Port %s already has the floating IP %s.", p.id,
			p.floating)
	}
	if f.FixedIP != "" && (len(p.fixedIPs) == 0 || p.fixedIPs[0].IPAddress.String() != f.FixedIP) {
		return nil, badRequest("Port %s does not have fixed ip %s", p.id, f.FixedIP)
	}
	return p, nil
}

func (c *Cloud) createFloatingIP(r *request) (reply, error) {
	var ask struct {
		FloatingIP struct {
			floatingFields
			NetworkID string `json:"floating_network_id"`
			Address   string `json:"floating_ip_address"`
			SubnetID  string `json:"subnet_id"`
			TenantID  string `json:"tenant_id"`
			ProjectID string `json:"project_id"`
		} `json:"floatingip"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	fields := ask.FloatingIP
	n, found := c.networks.get(fields.NetworkID)
	if !found {
		return reply{}, networkNotFound(fields.NetworkID)
	}
	if !n.External {
		return reply{}, badRequest("Bad floatingip request: Network %s is not a valid external network.", n.id)
	}
	if err := c.checkNetworkQuota("floatingip"); err != nil {
		return reply{}, err
	}
	p, err := c.portFor(fields.floatingFields, "")
	if err != nil {
		return reply{}, err
	}
	ips, err := n.allocate([]wantedIP{{SubnetID: fields.SubnetID, IPAddress: fields.Address}})
	if err != nil {
		return reply{}, err
	}
	f := &floatingIP{stamp: newStamp(uuid.NewString(), "", "", c.projectID), network: n, ip: ips[0]}
	set(&f.description, fields.Description)
	f.attach(p)
	c.floatingIPs.add(f.id, f)
	return created(object{"floatingip": f.view()}), nil
}

// updateFloatingIP changes the port. A request without a port removes the association, unless it only changes the
// description.
func (c *Cloud) updateFloatingIP(r *request) (reply, error) {
	var ask struct {
		FloatingIP floatingFields `json:"floatingip"`
	}
	f, err := c.findFloatingIP(r)
	if err != nil {
		return reply{}, err
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	p, err := c.portFor(ask.FloatingIP, f.ip.IPAddress.String())
	if err != nil {
		return reply{}, err
	}
	if ask.FloatingIP.PortID != nil || ask.FloatingIP.Description == nil {
		f.attach(p)
	}
	set(&f.description, ask.FloatingIP.Description)
	return ok(object{"floatingip": f.view()}), nil
}
