// Package vcenter runs govmomi's simulator of a vCenter for a test: its whole API over TLS, with two hosts in a DRS
// cluster, two beside it, and two templates. Nothing runs in its virtual machines. One that is switched on says an
// address, as VMware Tools do.
package vcenter

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/url"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	// The parts of vCenter beside the API of the virtual machines, which Terraform's provider asks too.
	_ "github.com/vmware/govmomi/lookup/simulator"
	"github.com/vmware/govmomi/object"
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/sts/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// What a vCenter of this package has.
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

// OtherHosts returns the hosts that are of no cluster. Each has a resource pool of its own.
func OtherHosts() []string { return []string{"DC0_H0", "DC0_H1"} }

// Center is a running vCenter.
type Center struct {
	model  *simulator.Model
	server *simulator.Server
	client *govmomi.Client
	tools  *tools
}

// Start starts one on a free port of 127.0.0.1. Close ends it.
func Start(ctx context.Context) (*Center, error) {
	m := simulator.VPX()
	m.Host, m.Cluster, m.ClusterHost, m.Machine, m.Autostart = 2, 1, 2, 1, false
	if err := m.Create(); err != nil {
		return nil, err
	}
	m.Service.TLS = new(tls.Config)
	m.Service.RegisterEndpoints = true
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(User, Password)}
	c := &Center{model: m, tools: &tools{addresses: map[types.ManagedObjectReference]string{}}}
	m.Map().AddHandler(c.tools)
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

// Change changes properties of an object, as what no call of the API changes.
func (c *Center) Change(ref types.ManagedObjectReference, changes ...types.PropertyChange) {
	ctx := c.model.Service.Context
	c.model.Map().AtomicUpdate(ctx, ctx.Map.Get(ref), changes)
}

// Mute has a virtual machine of that name say no address when it is switched on the next time.
func (c *Center) Mute(name string) { c.tools.mute(name) }

// Starts returns how often a virtual machine was switched on.
func (c *Center) Starts(ref types.ManagedObjectReference) int {
	c.tools.lock.Lock()
	defer c.tools.lock.Unlock()
	return c.tools.starts[ref]
}

// EndSessions ends all sessions, as a vCenter does that restarts.
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

// tools is the VMware Tools of all virtual machines. The simulator calls it at each change of an object.
type tools struct {
	lock      sync.Mutex
	addresses map[types.ManagedObjectReference]string
	starts    map[types.ManagedObjectReference]int
	muted     map[string]bool
}

func (t *tools) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Tools", Value: "tools"}
}

// PutObject gives a virtual machine an id of its own, as a vCenter does. That of the simulator follows from the name.
func (t *tools) PutObject(_ *simulator.Context, made mo.Reference) {
	if vm, ok := made.(*simulator.VirtualMachine); ok {
		vm.Config.Uuid = uuid.NewString()
		vm.Summary.Config.Uuid = vm.Config.Uuid
	}
}

func (t *tools) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}

// UpdateObject answers a change of the power state.
func (t *tools) UpdateObject(ctx *simulator.Context, changed mo.Reference, changes []types.PropertyChange) {
	vm, ok := changed.(*mo.VirtualMachine)
	if !ok {
		return
	}
	for _, change := range changes {
		if change.Name == "runtime.powerState" {
			ctx.Update(changed, t.guest(vm, change.Val == types.VirtualMachinePowerStatePoweredOn))
		}
	}
}

// guest returns what the guest is, when it has been switched on or off.
func (t *tools) guest(vm *mo.VirtualMachine, on bool) []types.PropertyChange {
	t.lock.Lock()
	defer t.lock.Unlock()
	status := types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
	cards := append([]types.GuestNicInfo{}, vm.Guest.Net...)
	muted := t.muted[vm.Name]
	if on {
		if t.starts == nil {
			t.starts = map[types.ManagedObjectReference]int{}
		}
		t.starts[vm.Self]++
		delete(t.muted, vm.Name)
		status = types.VirtualMachineToolsRunningStatusGuestToolsRunning
	}
	for i := range cards {
		cards[i].IpAddress, cards[i].IpConfig = nil, nil
		if on && !muted {
			address := t.address(vm.Self)
			cards[i].IpAddress = []string{address}
			cards[i].IpConfig = &types.NetIpConfigInfo{
				IpAddress: []types.NetIpConfigInfoIpAddress{{IpAddress: address, PrefixLength: 16, State: "preferred"}},
			}
		}
	}
	return []types.PropertyChange{
		{Name: "guest.net", Val: cards}, {Name: "guest.toolsRunningStatus", Val: string(status)},
	}
}

// address returns the address of a virtual machine. It keeps it.
func (t *tools) address(ref types.ManagedObjectReference) string {
	if t.addresses[ref] == "" {
		n := len(t.addresses) + 1
		t.addresses[ref] = fmt.Sprintf("10.78.%d.%d", n/250, n%250+1)
	}
	return t.addresses[ref]
}

func (t *tools) mute(name string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.muted == nil {
		t.muted = map[string]bool{}
	}
	t.muted[name] = true
}
