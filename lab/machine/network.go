package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// uplink is the name of the switch's end of the host's link.
const uplink = "host"

// linkName returns the name of the host's only interface of a lab.
func linkName(lab string) string { return "lab-" + lab }

// network is the lab's switch: a bridge in a separate network namespace, and a link from the host to it.
type network struct {
	link   string
	space  netns.NsHandle
	bridge int
	inside *netlink.Handle
}

// newNetwork creates the switch and gives the host's end of its link the address gateway.
func newNetwork(lab string, gateway netip.Prefix) (_ *network, err error) {
	space, err := newNamespace()
	if err != nil {
		return nil, err
	}
	n := &network{link: linkName(lab), space: space}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.inside, err = netlink.NewHandleAt(space, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("enter switch: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "switch"}}
	if err := n.inside.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make bridge: %w", err)
	}
	n.bridge = bridge.Index
	if err := n.inside.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("make bridge: %w", err)
	}
	if err := n.connectHost(gateway); err != nil {
		return nil, fmt.Errorf("make link %s: %w", n.link, err)
	}
	return n, nil
}

func (n *network) connectHost(gateway netip.Prefix) error {
	link := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: n.link},
		PeerName:      uplink,
		PeerNamespace: netlink.NsFd(n.space),
	}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(gateway)}); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	return n.plug(uplink)
}

// addAddress gives the host's end of its link another address.
func (n *network) addAddress(address netip.Addr) error {
	link, err := netlink.LinkByName(n.link)
	if err == nil {
		err = netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, address.BitLen()))})
	}
	if err != nil {
		return fmt.Errorf("add %s to link %s: %w", address, n.link, err)
	}
	return nil
}

// plug connects the switch's end of a link to the bridge.
func (n *network) plug(name string) error {
	end, err := n.inside.LinkByName(name)
	if err != nil {
		return err
	}
	if err := n.inside.LinkSetMasterByIndex(end, n.bridge); err != nil {
		return err
	}
	return n.inside.LinkSetUp(end)
}

// port describes one network interface of a machine.
type port struct {
	name    string // of the machine's end: eth0, …
	cable   string // of the switch's end
	mac     net.HardwareAddr
	prefix  netip.Prefix
	gateway netip.Addr
}

// attach gives the process's network namespace its ports and a loopback.
func (n *network) attach(pid int, ports []port) error {
	space, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("find network namespace: %w", err)
	}
	defer func() { _ = space.Close() }()
	machine, err := netlink.NewHandleAt(space, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer machine.Close()
	loopback, err := machine.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := machine.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("start loopback: %w", err)
	}
	for _, p := range ports {
		if err := n.connect(machine, space, p); err != nil {
			return fmt.Errorf("connect %s: %w", p.name, err)
		}
	}
	return nil
}

func (n *network) connect(machine *netlink.Handle, space netns.NsHandle, p port) error {
	veth := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: p.cable},
		PeerName:         p.name,
		PeerHardwareAddr: p.mac,
		PeerNamespace:    netlink.NsFd(space),
	}
	if err := n.inside.LinkAdd(veth); err != nil {
		return err
	}
	if err := n.plug(p.cable); err != nil {
		return err
	}
	end, err := machine.LinkByName(p.name)
	if err != nil {
		return err
	}
	if err := machine.AddrAdd(end, &netlink.Addr{IPNet: ipNet(p.prefix)}); err != nil {
		return err
	}
	if err := machine.LinkSetUp(end); err != nil {
		return err
	}
	if p.gateway.IsValid() {
		if err := machine.RouteAdd(&netlink.Route{LinkIndex: end.Attrs().Index, Gw: p.gateway.AsSlice()}); err != nil {
			return err
		}
	}
	return n.announce(machine, end, p)
}

// announce makes the machine send a gratuitous ARP. Another machine may have had its address before, and the neighbours
// would use the old hardware address for up to a minute. With arp_notify (ip-sysctl) the kernel sends it whenever a
// hardware address is set, also to the same one; the link to the bridge must be up before.
func (n *network) announce(machine *netlink.Handle, end netlink.Link, p port) error {
	const limit = 5 * time.Second
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		cable, err := n.inside.LinkByName(p.cable)
		if err != nil {
			return err
		}
		if cable.Attrs().OperState == netlink.OperUp {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no carrier after %s", limit)
		}
	}
	return machine.LinkSetHardwareAddr(end, p.mac)
}

// cut disconnects the link of each port, or connects it again. The machine keeps its addresses and its connections.
func (n *network) cut(ports []port, off bool) error {
	set := n.inside.LinkSetUp
	if off {
		set = n.inside.LinkSetDown
	}
	for _, p := range ports {
		link, err := n.inside.LinkByName(p.cable)
		if err == nil {
			err = set(link)
		}
		if err != nil {
			return fmt.Errorf("cut %s: %w", p.cable, err)
		}
	}
	return nil
}

// detach removes the ports at once; the kernel would remove them some time after the machine's last process has ended.
func (n *network) detach(ports []port) error {
	var errs []error
	for _, p := range ports {
		link, err := n.inside.LinkByName(p.cable)
		if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
			continue
		}
		if err == nil {
			err = n.inside.LinkDel(link)
		}
		if err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("disconnect %s: %w", p.cable, err))
		}
	}
	return errors.Join(errs...)
}

func (n *network) close() error {
	if n.inside != nil {
		n.inside.Close()
	}
	return errors.Join(removeLink(n.link), n.space.Close())
}

// removeLink removes a link of the host; a missing one is success.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// newNamespace creates a network namespace that exists as long as its descriptor is open.
func newNamespace() (netns.NsHandle, error) {
	type result struct {
		space netns.NsHandle
		err   error
	}
	results := make(chan result)
	go func() {
		// The thread is not unlocked, so it ends with this goroutine, and no other goroutine runs in the switch's
		// namespace.
		runtime.LockOSThread()
		space, err := netns.New()
		results <- result{space, os.NewSyscallError("unshare", err)}
	}()
	r := <-results
	if r.err != nil {
		return netns.None(), fmt.Errorf("make switch: %w", r.err)
	}
	return r.space, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
