package libvirt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// domain is one of libvirt's domains, the cluster's or not.
type domain struct {
	reconfigure.Server
	mark
	host    *host
	is      rpc.Domain
	cores   int
	memory  int      // MiB
	volumes []string // names, in any pool
}

// definition has the parts of a domain's XML that are read (libvirt's documentation, "Domain XML format").
type definition struct {
	Description string `xml:"description"`
	Memory      struct {
		Unit  string `xml:"unit,attr"`
		Value int    `xml:",chardata"`
	} `xml:"memory"`
	Cores   int `xml:"vcpu"`
	Devices struct {
		Disks []struct {
			Source struct {
				File   string `xml:"file,attr"`
				Volume string `xml:"volume,attr"`
			} `xml:"source"`
		} `xml:"disk"`
		Serials []struct {
			Log struct {
				File string `xml:"file,attr"`
			} `xml:"log"`
		} `xml:"serial"`
		Interfaces []struct {
			MAC struct {
				Address string `xml:"address,attr"`
			} `xml:"mac"`
			Source struct {
				Network string `xml:"network,attr"`
			} `xml:"source"`
		} `xml:"interface"`
	} `xml:"devices"`
}

// domains returns the domains of all hosts. It leaves out domains that were removed after they were listed.
func (c *Client) domains(ctx context.Context) ([]domain, error) {
	lists, err := onAll(ctx, c, func(h *host, l *rpc.Libvirt) ([]domain, error) {
		listed, _, err := l.ConnectListAllDomains(1, 0)
		if err != nil {
			return nil, err
		}
		networks := addresses{}
		var all []domain
		for _, is := range listed {
			d, err := look(h, l, is, networks)
			if absent(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		return all, nil
	})
	return slices.Concat(lists...), err
}

// look reads a domain.
func look(h *host, l *rpc.Libvirt, is rpc.Domain, networks addresses) (domain, error) {
	text, err := l.DomainGetXMLDesc(is, 0)
	if err != nil {
		return domain{}, err
	}
	var defined definition
	if err := xml.Unmarshal([]byte(text), &defined); err != nil {
		return domain{}, fmt.Errorf("domain %s: %w", is.Name, err)
	}
	state, reason, err := l.DomainGetState(is, 0)
	if err != nil {
		return domain{}, err
	}
	d := domain{
		mark: parseMark(defined.Description), host: h, is: is, cores: defined.Cores,
		memory: mebibytes(defined.Memory.Value, defined.Memory.Unit),
	}
	d.Server = reconfigure.Server{
		ID: uuid.UUID(is.UUID).String(), Node: d.mark.Node, Group: d.mark.Group, ImageID: d.Image, FlavorID: d.Flavor,
		Host: h.URI,
	}
	d.Status, d.Fault.Words = status(rpc.DomainState(state), reason)
	if created, err := time.Parse(time.RFC3339, d.mark.Created); err == nil {
		d.Server.Created = created
	}
	for _, disk := range defined.Devices.Disks {
		if name := cmp.Or(disk.Source.Volume, filepath.Base(disk.Source.File)); name != "." {
			d.volumes = append(d.volumes, name)
		}
	}
	for _, serial := range defined.Devices.Serials {
		if serial.Log.File != "" {
			d.volumes = append(d.volumes, filepath.Base(serial.Log.File))
		}
	}
	for _, i := range defined.Devices.Interfaces {
		if d.Address == "" && i.Source.Network != "" {
			d.Address, err = networks.of(l, i.Source.Network, i.MAC.Address)
		}
	}
	return d, err
}

// mebibytes converts an amount of memory, which libvirt prints in KiB.
func mebibytes(n int, unit string) int {
	if unit == "MiB" {
		return n
	}
	return n >> 10
}

// status returns the status of a domain and its fault.
func status(state rpc.DomainState, reason int32) (status reconfigure.ServerStatus, fault string) {
	switch state {
	case rpc.DomainRunning, rpc.DomainBlocked, rpc.DomainNostate:
		return reconfigure.ServerActive, ""
	case rpc.DomainPaused:
		if rpc.DomainPausedReason(reason) == rpc.DomainPausedIoerror {
			return reconfigure.ServerFailed, "an error of its disk: the host's storage may be full"
		}
		return reconfigure.ServerPaused, ""
	case rpc.DomainPmsuspended:
		return reconfigure.ServerSuspended, ""
	case rpc.DomainCrashed:
		return reconfigure.ServerFailed, "its kernel has crashed"
	case rpc.DomainShutoff:
		switch rpc.DomainShutoffReason(reason) {
		case rpc.DomainShutoffCrashed:
			return reconfigure.ServerFailed, "its hypervisor has crashed"
		case rpc.DomainShutoffFailed:
			return reconfigure.ServerFailed, "it could not be started"
		}
	}
	return reconfigure.ServerStopped, ""
}

// addresses has the IPv4 addresses in networks, by network and MAC.
type addresses map[string]map[string]string

// of returns the address of a MAC in a network: the reserved one, else the address of its newest lease.
func (a addresses) of(l *rpc.Libvirt, network, mac string) (string, error) {
	if a[network] == nil {
		found, err := networkAddresses(l, network)
		if err != nil {
			return "", err
		}
		a[network] = found
	}
	return a[network][strings.ToLower(mac)], nil
}

func networkAddresses(l *rpc.Libvirt, name string) (map[string]string, error) {
	found := map[string]string{}
	network, err := l.NetworkLookupByName(name)
	if absent(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	leases, _, err := l.NetworkGetDhcpLeases(network, nil, 1, 0)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(leases, func(a, b rpc.NetworkDhcpLease) int { return cmp.Compare(a.Expirytime, b.Expirytime) })
	for _, lease := range leases {
		if len(lease.Mac) == 1 && cloud.IPv4(lease.Ipaddr) {
			found[strings.ToLower(lease.Mac[0])] = lease.Ipaddr
		}
	}
	text, err := l.NetworkGetXMLDesc(network, 0)
	if err != nil {
		return nil, err
	}
	var defined struct {
		Reserved []struct {
			MAC string `xml:"mac,attr"`
			IP  string `xml:"ip,attr"`
		} `xml:"ip>dhcp>host"`
	}
	if err := xml.Unmarshal([]byte(text), &defined); err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	for _, r := range defined.Reserved {
		if r.MAC != "" && cloud.IPv4(r.IP) {
			found[strings.ToLower(r.MAC)] = r.IP
		}
	}
	return found, nil
}

// ours reports whether a domain belongs to this cluster.
func (c *Client) ours(m mark) bool {
	return cloud.Ours(c.access, m.ClusterID)
}

// Servers returns all instances of the cluster, in any status, by node, the oldest first.
func (c *Client) Servers(ctx context.Context, _ nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	all, err := c.domains(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string][]reconfigure.Server{}
	for _, d := range all {
		if c.ours(d.mark) {
			found[d.mark.Node] = append(found[d.mark.Node], d.Server)
		}
	}
	for _, same := range found {
		reconfigure.OldestFirst(same)
	}
	return found, nil
}

// ServersWithFaults is Servers, which has the faults already.
func (c *Client) ServersWithFaults(ctx context.Context) (map[string][]reconfigure.Server, error) {
	return c.Servers(ctx, nodeset.NodeSet{})
}

// find returns a domain by its id; false if no host has it.
func (c *Client) find(ctx context.Context, id string) (domain, bool, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return domain{}, false, fmt.Errorf("instance %q: %w", id, err)
	}
	found, err := onAll(ctx, c, func(h *host, l *rpc.Libvirt) (*domain, error) {
		is, err := l.DomainLookupByUUID(rpc.UUID(parsed))
		if absent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		d, err := look(h, l, is, addresses{})
		if absent(err) {
			return nil, nil
		}
		return &d, err
	})
	for _, d := range found {
		if d != nil && err == nil {
			return *d, true, nil
		}
	}
	return domain{}, false, err
}

// Server returns an instance by its id; false if no host has it.
func (c *Client) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	d, there, err := c.find(ctx, id)
	return d.Server, there, err
}

// Fault returns libvirt's fault of an instance; empty if there is none, or the instance is gone.
func (c *Client) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	d, _, err := c.find(ctx, id)
	return d.Fault, err
}

// Reboot shuts the guest down and starts it again. If the guest does not shut down in time, Reboot switches it off.
func (c *Client) Reboot(ctx context.Context, id string) error {
	d, there, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	if !there {
		return reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf("no host has the instance %s", id))
	}
	_, err = call(ctx, d.host, func(l *rpc.Libvirt) (none struct{}, err error) {
		return none, running(l.DomainShutdown(d.is))
	})
	if err == nil {
		err = c.awaitOff(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("shut down instance %s: %w", id, err)
	}
	_, err = call(ctx, d.host, func(l *rpc.Libvirt) (none struct{}, err error) { return none, l.DomainCreate(d.is) })
	return err
}

// running drops the error of a domain that does not run.
func running(err error) error {
	var said rpc.Error
	if errors.As(err, &said) && rpc.ErrorNumber(said.Code) == rpc.ErrOperationInvalid {
		return nil
	}
	return err
}

// awaitOff returns when a domain is off. After a time limit it switches the domain off.
func (c *Client) awaitOff(ctx context.Context, d domain) error {
	late := time.Now().Add(c.tempo.Soft)
	for {
		off, err := call(ctx, d.host, func(l *rpc.Libvirt) (bool, error) {
			state, _, err := l.DomainGetState(d.is, 0)
			off := rpc.DomainState(state) == rpc.DomainShutoff
			if err == nil && !off && time.Now().After(late) {
				return true, running(l.DomainDestroy(d.is))
			}
			return off, err
		})
		if err != nil || off {
			return err
		}
		if err := sleep.For(ctx, c.tempo.Poll); err != nil {
			return err
		}
	}
}

// Console returns the last lines of an instance's console log; all of it if lines is zero. The log is a volume of the
// pool; the root module makes the host write it.
func (c *Client) Console(ctx context.Context, id string, lines int) (string, error) {
	d, there, err := c.find(ctx, id)
	if err != nil {
		return "", err
	}
	if !there {
		return "", reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf("no host has the instance %s", id))
	}
	text, err := call(ctx, d.host, func(l *rpc.Libvirt) (string, error) {
		pool, err := l.StoragePoolLookupByName(d.host.pool)
		if err != nil {
			return "", err
		}
		if err := l.StoragePoolRefresh(pool, 0); err != nil { // without it libvirt does not know the file's new size
			return "", err
		}
		volume, err := l.StorageVolLookupByName(pool, d.is.Name+".console")
		if err != nil {
			return "", err
		}
		var text bytes.Buffer
		err = l.StorageVolDownload(volume, &text, 0, 0, 0)
		return text.String(), err
	})
	if err != nil {
		return "", fmt.Errorf("console of instance %s: %w", id, err)
	}
	return cloud.LastLines(strings.TrimLeft(text, "\x00"), lines), nil
}

// RemoveServer removes an instance that Terraform does not know, with its volumes; the caller MUST make sure that
// Terraform does not know it. RemoveServer first reads the instance again: it must have the cluster's id and the
// name, and have been created before the time; else nothing is removed, and the error says why. A missing instance is
// success.
func (c *Client) RemoveServer(ctx context.Context, id, name string, before time.Time) error {
	d, there, err := c.find(ctx, id)
	if err != nil || !there {
		return err
	}
	if err := cloud.Removable(c.access, d.instance(), name, before); err != nil {
		return err
	}
	_, err = call(ctx, d.host, func(l *rpc.Libvirt) (none struct{}, err error) { return none, remove(l, d) })
	if err != nil {
		return fmt.Errorf("remove instance %s: %w", id, err)
	}
	return nil
}

func remove(l *rpc.Libvirt, d domain) error {
	if err := running(l.DomainDestroy(d.is)); err != nil && !absent(err) {
		return err
	}
	const all = rpc.DomainUndefineManagedSave | rpc.DomainUndefineSnapshotsMetadata | rpc.DomainUndefineNvram
	if err := l.DomainUndefineFlags(d.is, all); err != nil && !absent(err) {
		return err
	}
	pool, err := l.StoragePoolLookupByName(d.host.pool)
	if err == nil {
		err = l.StoragePoolRefresh(pool, 0) // libvirt may not know a file that the hypervisor made
	}
	if err != nil {
		return err
	}
	for _, name := range d.volumes {
		if !strings.HasPrefix(name, d.is.Name+".") {
			continue // not a volume of the root module
		}
		volume, err := l.StorageVolLookupByName(pool, name)
		if err == nil {
			err = l.StorageVolDelete(volume, 0)
		}
		if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}
