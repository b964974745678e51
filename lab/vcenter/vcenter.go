// Package vcenter runs govmomi's simulator of a vCenter for a test: its whole API over TLS, with two hosts in a DRS
// cluster, two other hosts, and two templates. A virtual machine that is switched on reports an address, as VMware
// Tools do. With a hypervisor, it is a machine of a lab; without one, it runs nothing.
package vcenter

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	// Parts of vCenter beside the API of virtual machines that Terraform's provider also needs.
	_ "github.com/vmware/govmomi/lookup/simulator"
	"github.com/vmware/govmomi/object"
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/sts/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Resources of the vCenters of this package.
const (
	User       = "operator"
	Password   = "secret"
	Datacenter = "DC0"
	Datastore  = "LocalDS_0"
	Cluster    = "DC0_C0"
	Pool       = Cluster + "/Resources" // its resource pool
	Network    = "VM Network"
	// ImageV1 and ImageV2 are the templates, each with a disk of 10 GiB.
	ImageV1 = "node-v1"
	ImageV2 = "node-v2"
)

// Hosts returns the hosts of the cluster.
func Hosts() []string { return []string{"DC0_C0_H0", "DC0_C0_H1"} }

// OtherHosts returns the hosts that belong to no cluster. Each has its own resource pool.
func OtherHosts() []string { return []string{"DC0_H0", "DC0_H1"} }

// Center is a running vCenter.
type Center struct {
	model  *simulator.Model
	server *simulator.Server
	client *govmomi.Client
	tools  *tools
}

// Start starts a vCenter without machines on a free port of 127.0.0.1. Close ends it.
func Start(ctx context.Context) (*Center, error) {
	return start(ctx, netip.MustParsePrefix("10.78.0.1/16"), nil)
}

// start starts a vCenter whose network has a router, with machines if they are not nil.
func start(ctx context.Context, router netip.Prefix, machines *machines) (*Center, error) {
	m := simulator.VPX()
	m.Host, m.Cluster, m.ClusterHost, m.Machine, m.Autostart = 2, 1, 2, 1, false
	if err := m.Create(); err != nil {
		return nil, err
	}
	m.Service.TLS = new(tls.Config)
	m.Service.RegisterEndpoints = true
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(User, Password)}
	c := &Center{model: m, tools: newTools(router, machines)}
	m.Map().AddHandler(c.tools)
	if machines != nil {
		m.Map().Handler = machines.call
	}
	c.server = m.Service.NewServer()
	err := c.furnish(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// furnish makes templates of two virtual machines of the model, and removes the third.
func (c *Center) furnish(ctx context.Context) error {
	var err error
	if c.client, err = govmomi.NewClient(ctx, c.server.URL, true); err != nil {
		return err
	}
	for from, to := range map[string]string{"DC0_C0_RP0_VM0": ImageV1, "DC0_H0_VM0": ImageV2} {
		vm, err := c.Machine(ctx, from)
		if err != nil {
			return err
		}
		task, err := vm.Rename(ctx, to)
		if err == nil {
			err = task.Wait(ctx)
		}
		if err == nil {
			err = vm.MarkAsTemplate(ctx)
		}
		if err != nil {
			return fmt.Errorf("template %s: %w", to, err)
		}
	}
	rest, err := c.Machine(ctx, "DC0_H1_VM0")
	if err != nil {
		return err
	}
	task, err := rest.Destroy(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Close ends the vCenter.
func (c *Center) Close() {
	c.server.Close()
	c.model.Remove()
}

// Server returns its HOST:PORT.
func (c *Center) Server() string { return c.server.URL.Host }

// Client returns a client that is logged in.
func (c *Center) Client() *govmomi.Client { return c.client }

// Certificate returns the certificate in PEM.
func (c *Center) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
}

// Finder returns a finder in the datacenter.
func (c *Center) Finder(ctx context.Context) (*find.Finder, error) {
	finder := find.NewFinder(c.client.Client, false)
	datacenter, err := finder.Datacenter(ctx, Datacenter)
	if err != nil {
		return nil, err
	}
	return finder.SetDatacenter(datacenter), nil
}

// Machine returns a virtual machine by its name.
func (c *Center) Machine(ctx context.Context, name string) (*object.VirtualMachine, error) {
	finder, err := c.Finder(ctx)
	if err != nil {
		return nil, err
	}
	return finder.VirtualMachine(ctx, name)
}

// Change changes properties of an object directly, including those that no API call changes.
func (c *Center) Change(ref types.ManagedObjectReference, changes ...types.PropertyChange) {
	ctx := c.model.Service.Context
	c.model.Map().AtomicUpdate(ctx, ctx.Map.Get(ref), changes)
}

// Mute keeps a virtual machine of that name from reporting an address when it is next switched on.
func (c *Center) Mute(name string) { c.tools.mute(name) }

// Starts returns the number of times a virtual machine was switched on.
func (c *Center) Starts(ref types.ManagedObjectReference) int {
	c.tools.lock.Lock()
	defer c.tools.lock.Unlock()
	return c.tools.starts[ref]
}

// EndSessions ends all sessions, as a restart of vCenter does.
func (c *Center) EndSessions(ctx context.Context) error {
	var manager mo.SessionManager
	all := *c.client.ServiceContent.SessionManager
	if err := c.client.RetrieveOne(ctx, all, []string{"sessionList"}, &manager); err != nil {
		return err
	}
	own, err := c.client.SessionManager.UserSession(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for _, s := range manager.SessionList {
		if s.Key != own.Key {
			keys = append(keys, s.Key)
		}
	}
	return c.client.SessionManager.TerminateSession(ctx, keys)
}
