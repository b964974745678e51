package labcloud

import (
	"crypto/rand"
	"fmt"
	"net"
	"slices"

	"github.com/google/uuid"
)

// port is a connection to a network, with its addresses.
type port struct {
	stamp
	network *subnetwork
	mac     string
	// deviceID is the id of the server that the port belongs to; empty if there is none.
	deviceID, deviceOwner string
	fixedIPs              []fixedIP
	groups                []string
	pairs                 []addressPair
	dhcpOptions           []object
	down                  bool // administratively
	insecure              bool // port security is off
	// bound reports whether a server uses the port.
	bound bool
	// made reports that Nova made the port for its server, and removes it together with the server.
	made bool
	// floating is the floating IP's address, or empty.
	floating string
}

// addressPair allows a port to send from another address.
type addressPair struct {
	IPAddress  string `json:"ip_address"`
	MACAddress string `json:"mac_address"`
}

func (c *Cloud) portRoutes() []route {
	const path = "/network/v2.0/ports"
	return append([]route{
		{network, "GET " + path, false, func(r *request) (reply, error) { return listResources(r, "ports", &c.ports) }},
		{network, "POST " + path, false, c.createPort},
		{network, "GET " + path + "/{id}", false, func(r *request) (reply, error) {
			p, err := c.findPort(r)
			if err != nil {
				return reply{}, err
			}
			return ok(object{"port": p.view()}), nil
		}},
		{network, "PUT " + path + "/{id}", false, c.updatePort},
		{network, "DELETE " + path + "/{id}", false, func(r *request) (reply, error) {
			p, err := c.findPort(r)
			if err != nil {
				return reply{}, err
			}
			c.removePort(p)
			return noContent(), nil
		}},
	}, tagRoutes(path, c.findPort)...)
}

// findPort finds the port named in a path.
func (c *Cloud) findPort(r *request) (*port, error) {
	p, found := c.ports.get(r.PathValue("id"))
	if !found {
		return nil, notFound("PortNotFound", "Port %s could not be found.", r.PathValue("id"))
	}
	return p, nil
}

func (p *port) has(name, value string) (matched, known bool) {
	switch name {
	case "device_id":
		return p.deviceID == value, true
	case "device_owner":
		return p.deviceOwner == value, true
	case "network_id":
		return p.network.id == value, true
	case "mac_address":
		return p.mac == value, true
	case "status":
		return p.status() == value, true
	case "admin_state_up":
		return isBool(!p.down, value), true
	case "security_groups":
		return slices.Contains(p.groups, value), true
	case "fixed_ips":
		return slices.ContainsFunc(p.fixedIPs, func(ip fixedIP) bool {
			return value == "ip_address="+ip.IPAddress.String() || value == "subnet_id="+ip.SubnetID
		}), true
	}
	return p.stamp.has(name, value)
}

// status is ACTIVE for a port that a server uses.
func (p *port) status() string {
	if p.bound && !p.down {
		return "ACTIVE"
	}
	return "DOWN"
}

func (p *port) view() object {
	return p.with(object{
		"network_id": p.network.id, "mac_address": p.mac, "admin_state_up": !p.down, "status": p.status(),
		"device_id": p.deviceID, "device_owner": p.deviceOwner, "fixed_ips": slices.Clone(p.fixedIPs),
		"allowed_address_pairs": slices.Clone(p.pairs), "extra_dhcp_opts": p.dhcpOptions,
		"security_groups": slices.Clone(p.groups), "binding:vnic_type": "normal",
		"port_security_enabled": !p.insecure,
	})
}

// portFields are the fields of a port in a request; those that it lacks are nil.
type portFields struct {
	Name        *string        `json:"name"`
	Description *string        `json:"description"`
	AdminUp     *bool          `json:"admin_state_up"`
	DeviceID    *string        `json:"device_id"`
	DeviceOwner *string        `json:"device_owner"`
	FixedIPs    []wantedIP     `json:"fixed_ips"`
	Groups      *[]string      `json:"security_groups"`
	Pairs       *[]addressPair `json:"allowed_address_pairs"`
	DHCPOptions *[]object      `json:"extra_dhcp_opts"`
	Security    *bool          `json:"port_security_enabled"`
	VNICType    string         `json:"binding:vnic_type"`
	MAC         string         `json:"mac_address"`
}

// set assigns *from to *to, unless from is nil.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// createPort makes a port, with an address, unless the request has an empty list of addresses.
func (c *Cloud) createPort(r *request) (reply, error) {
	var ask struct {
		Port struct {
			portFields
			NetworkID string `json:"network_id"`
			TenantID  string `json:"tenant_id"`
			ProjectID string `json:"project_id"`
		} `json:"port"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	n, found := c.networks.get(ask.Port.NetworkID)
	if !found {
		return reply{}, networkNotFound(ask.Port.NetworkID)
	}
	p, err := c.newPort(n, ask.Port.portFields)
	if err != nil {
		return reply{}, err
	}
	return created(object{"port": p.view()}), nil
}

// newPort adds a port to the cloud.
func (c *Cloud) newPort(n *subnetwork, f portFields) (*port, error) {
	if err := c.checkNetworkQuota("port"); err != nil {
		return nil, err
	}
	if f.MAC != "" {
		if _, err := net.ParseMAC(f.MAC); err != nil {
			return nil, badRequest("Invalid input for mac_address. Reason: '%s' is not a valid MAC address.", f.MAC)
		}
	}
	if f.Groups == nil {
		f.Groups = &[]string{c.defaultGroup}
	}
	p := &port{
		stamp: newStamp(uuid.NewString(), "", "", c.projectID), network: n, mac: f.MAC,
		groups: []string{}, pairs: []addressPair{}, dhcpOptions: []object{},
	}
	if p.mac == "" {
		p.mac = randomMAC()
	}
	wanted := f.FixedIPs
	f.FixedIPs = nil
	if err := c.changePort(p, f); err != nil {
		return nil, err
	}
	ips, err := n.allocate(wanted)
	if err != nil {
		return nil, err
	}
	p.fixedIPs = ips
	c.ports.add(p.id, p)
	return p, nil
}

// randomMAC returns an address in Neutron's range.
func randomMAC() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", b[0], b[1], b[2])
}

// changePort applies f to a port. On an error it changes nothing.
func (c *Cloud) changePort(p *port, f portFields) error {
	if f.VNICType != "" && f.VNICType != "normal" {
		return badRequest("labcloud has no ports of the type %s", f.VNICType)
	}
	if f.MAC != "" && f.MAC != p.mac {
		return badRequest("labcloud does not change MAC addresses")
	}
	if f.Groups != nil {
		for _, id := range *f.Groups {
			if _, found := c.securityGroups.get(id); !found {
				return notFound("SecurityGroupNotFound", "Security group %s does not exist", id)
			}
		}
		p.groups = append([]string{}, *f.Groups...)
	}
	if f.Pairs != nil {
		p.pairs = []addressPair{}
		for _, pair := range *f.Pairs {
			if pair.MACAddress == "" {
				pair.MACAddress = p.mac
			}
			p.pairs = append(p.pairs, pair)
		}
	}
	set(&p.name, f.Name)
	set(&p.description, f.Description)
	set(&p.deviceID, f.DeviceID)
	set(&p.deviceOwner, f.DeviceOwner)
	set(&p.dhcpOptions, f.DHCPOptions)
	if f.AdminUp != nil {
		p.down = !*f.AdminUp
	}
	if f.Security != nil {
		p.insecure = !*f.Security
	}
	return nil
}

// updatePort changes a port. It rejects new addresses for a port that a server uses, since the machine would not learn
// of them.
func (c *Cloud) updatePort(r *request) (reply, error) {
	var ask struct {
		Port portFields `json:"port"`
	}
	p, err := c.findPort(r)
	if err != nil {
		return reply{}, err
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	if ask.Port.FixedIPs != nil {
		if p.bound {
			return reply{}, badRequest("labcloud does not change the addresses of a port in use")
		}
		ips, err := p.network.allocate(ask.Port.FixedIPs)
		if err != nil {
			return reply{}, err
		}
		p.network.release(p.fixedIPs)
		p.fixedIPs = ips
	}
	if err := c.changePort(p, ask.Port); err != nil {
		return reply{}, err
	}
	p.touch()
	return ok(object{"port": p.view()}), nil
}

// removePort removes a port, also from its server, and frees its addresses.
func (c *Cloud) removePort(p *port) {
	if s, found := c.servers.get(p.deviceID); found {
		s.ports = slices.DeleteFunc(s.ports, func(q *port) bool { return q == p })
	}
	for _, f := range c.floatingIPs.all() {
		if f.port == p {
			f.attach(nil)
		}
	}
	p.network.release(p.fixedIPs)
	c.ports.remove(p.id)
}

// bind assigns a port to a server.
func (p *port) bind(server string) {
	p.deviceID, p.deviceOwner, p.bound = server, "compute:"+usualZone, true
	p.touch()
}

// unbind removes a port from its server.
func (p *port) unbind() {
	p.deviceID, p.deviceOwner, p.bound = "", "", false
	p.touch()
}
