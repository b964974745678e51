package labcloud

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
)

// pool allocates the addresses of a subnet in order. It reuses released ones only when no others are left, the longest
// free first: clients may still cache names and host keys for an address that was released shortly before.
type pool struct {
	next, last netip.Addr
	used       map[netip.Addr]bool
	returned   []netip.Addr
}

// newPool returns the pool of a network. The gateway counts as used.
func newPool(n Network) *pool {
	p := &pool{next: n.First, last: n.Last, used: make(map[netip.Addr]bool)}
	subnet := n.CIDR.Masked()
	if !p.next.IsValid() {
		p.next = subnet.Addr().Next()
	}
	if !p.last.IsValid() {
		p.last = broadcast(subnet).Prev()
	}
	if n.Gateway.IsValid() {
		p.used[n.Gateway] = true
	}
	return p
}

// broadcast returns the last address of an IPv4 prefix.
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	host := ^uint32(0) >> p.Bits()
	for i := range a {
		a[i] |= byte(host >> (8 * (3 - i)))
	}
	return netip.AddrFrom4(a)
}

// take allocates an address, if one is free.
func (p *pool) take() (netip.Addr, bool) {
	for p.next.Compare(p.last) <= 0 {
		a := p.next
		p.next = a.Next()
		if p.claim(a) {
			return a, true
		}
	}
	for len(p.returned) > 0 {
		a := p.returned[0]
		p.returned = p.returned[1:]
		if p.claim(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// claim allocates the given address, unless it is used.
func (p *pool) claim(a netip.Addr) bool {
	if p.used[a] {
		return false
	}
	p.used[a] = true
	return true
}

// release frees an address.
func (p *pool) release(a netip.Addr) {
	delete(p.used, a)
	if a.Less(p.next) {
		p.returned = append(p.returned, a)
	}
}

// subnetwork is a network and its one subnet.
type subnetwork struct {
	Network
	id, subnetID string
	pool         *pool
	// first and last are the bounds of the pool at the beginning.
	first, last netip.Addr
}

func newSubnetwork(n Network) *subnetwork {
	p := newPool(n)
	return &subnetwork{
		Network: n, id: stableID("network", n.Name), subnetID: stableID("subnet", n.Name),
		pool: p, first: p.next, last: p.last,
	}
}

// fixedIP is an address of a port.
type fixedIP struct {
	SubnetID  string     `json:"subnet_id"`
	IPAddress netip.Addr `json:"ip_address"`
}

// wantedIP is an address as requests ask for it: either part may be missing.
type wantedIP struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// allocate allocates the requested addresses of a port, or one from the pool if it requests none. If it returns an
// error, it has allocated none.
func (n *subnetwork) allocate(wanted []wantedIP) ([]fixedIP, error) {
	if wanted == nil {
		wanted = []wantedIP{{}}
	}
	ips := []fixedIP{}
	for _, w := range wanted {
		a, err := n.allocateOne(w)
		if err != nil {
			n.release(ips)
			return nil, err
		}
		ips = append(ips, fixedIP{n.subnetID, a})
	}
	return ips, nil
}

func (n *subnetwork) allocateOne(w wantedIP) (netip.Addr, error) {
	if id := cmp.Or(w.SubnetID, n.subnetID); id != n.subnetID {
		return netip.Addr{}, notFound("SubnetNotFound", "Subnet %s could not be found.", id)
	}
	if w.IPAddress == "" {
		a, ok := n.pool.take()
		if !ok {
			return a, conflict("IpAddressGenerationFailure", "No more IP addresses available on network %s.", n.id)
		}
		return a, nil
	}
	a, err := netip.ParseAddr(w.IPAddress)
	if err != nil || !n.CIDR.Contains(a) {
		return a, &problem{code: http.StatusBadRequest, kind: "InvalidIpForNetwork", message: fmt.Sprintf(
			"IP address %s is not a valid IP for any of the subnets on the specified network.", w.IPAddress)}
	}
	if !n.pool.claim(a) {
		return a, conflict("IpAddressAlreadyAllocated",
			"IP address %s already allocated in subnet %s", a, n.subnetID)
	}
	return a, nil
}

// release returns addresses to the pool.
func (n *subnetwork) release(ips []fixedIP) {
	for _, ip := range ips {
		n.pool.release(ip.IPAddress)
	}
}
