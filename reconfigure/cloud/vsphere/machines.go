package vsphere

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// machine is one of the datacenter's virtual machines, the cluster's or not. Templates are not included.
type machine struct {
	reconfigure.Server
	is       types.ManagedObjectReference
	name     string // the name in the inventory
	settings map[string]string
	cores    int
	memory   int // MiB
	tools    bool
}

// read has the properties of a virtual machine that are read (vSphere Web Services API, VirtualMachine).
var read = []string{
	"name", "config.template", "config.uuid", "config.extraConfig", "config.createDate", "config.hardware.numCPU",
	"config.hardware.memoryMB", "runtime.powerState", "runtime.connectionState", "runtime.host", "guest.net",
	"guest.ipAddress", "guest.toolsRunningStatus",
}

// machines returns the virtual machines of the datacenter.
func (l *login) machines(ctx context.Context) ([]machine, error) {
	inventory, err := l.view(ctx, l.datacenter.Reference(), "VirtualMachine", "HostSystem")
	if err != nil {
		return nil, err
	}
	defer destroy(ctx, inventory)
	var listed []mo.VirtualMachine
	if err := inventory.Retrieve(ctx, []string{"VirtualMachine"}, read, &listed); err != nil {
		return nil, err
	}
	var named []mo.HostSystem
	if err := inventory.Retrieve(ctx, []string{"HostSystem"}, []string{"name"}, &named); err != nil {
		return nil, err
	}
	names := map[types.ManagedObjectReference]string{}
	for _, h := range named {
		names[h.Self] = h.Name
	}
	var all []machine
	for _, vm := range listed {
		if vm.Config != nil && vm.Config.Template {
			continue
		}
		m := look(vm)
		if vm.Runtime.Host != nil {
			m.Host = names[*vm.Runtime.Host]
		}
		all = append(all, m)
	}
	return all, nil
}

// view returns a view of all objects of some types below another one.
func (l *login) view(
	ctx context.Context, below types.ManagedObjectReference, kinds ...string,
) (*view.ContainerView, error) {
	return view.NewManager(l.Client.Client).CreateContainerView(ctx, below, kinds, true)
}

// destroy ends a view. A session has a limited number of views; they end with the session.
func destroy(ctx context.Context, v *view.ContainerView) { _ = v.Destroy(context.WithoutCancel(ctx)) }

// look reads a virtual machine. One whose configuration vCenter cannot read belongs to no cluster.
func look(vm mo.VirtualMachine) machine {
	m := machine{is: vm.Self, name: vm.Name, settings: map[string]string{}}
	if vm.Config != nil {
		for _, one := range vm.Config.ExtraConfig {
			option := one.GetOptionValue()
			if text, ok := option.Value.(string); ok {
				m.settings[option.Key] = text
			}
		}
		m.cores, m.memory = int(vm.Config.Hardware.NumCPU), int(vm.Config.Hardware.MemoryMB)
		m.ID = vm.Config.Uuid
		if vm.Config.CreateDate != nil {
			m.Created = *vm.Config.CreateDate
		}
	}
	m.Node, m.Group = m.settings[nodeKey], m.settings[groupKey]
	m.ImageID, m.FlavorID = m.settings[imageKey], m.settings[flavorKey]
	m.Status, m.Fault.Words = status(vm.Runtime)
	if vm.Guest != nil {
		m.Address = address(*vm.Guest)
		m.tools = vm.Guest.ToolsRunningStatus == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
	}
	return m
}

// status returns the status of a virtual machine and its fault.
func status(runtime types.VirtualMachineRuntimeInfo) (status reconfigure.ServerStatus, fault string) {
	switch runtime.ConnectionState {
	case types.VirtualMachineConnectionStateInaccessible:
		return reconfigure.ServerFailed, "its host cannot read its files: the datastore may not be mounted"
	case types.VirtualMachineConnectionStateInvalid:
		return reconfigure.ServerFailed, "its configuration is invalid"
	case types.VirtualMachineConnectionStateOrphaned:
		return reconfigure.ServerFailed, "its host no longer has it"
	case types.VirtualMachineConnectionStateDisconnected:
		return "DISCONNECTED", ""
	}
	switch runtime.PowerState {
	case types.VirtualMachinePowerStatePoweredOn:
		return reconfigure.ServerActive, ""
	case types.VirtualMachinePowerStateSuspended:
		return reconfigure.ServerSuspended, ""
	}
	return reconfigure.ServerStopped, ""
}

// address returns the first IPv4 address that VMware Tools report for the virtual machine's network cards. Interfaces
// that the guest made have no device (vSphere Web Services API, GuestNicInfo.deviceConfigId).
func address(guest types.GuestInfo) string {
	cards := slices.SortedFunc(slices.Values(guest.Net), func(a, b types.GuestNicInfo) int {
		return cmp.Compare(a.DeviceConfigId, b.DeviceConfigId)
	})
	for _, card := range cards {
		if card.DeviceConfigId < 0 || card.IpConfig == nil {
			continue
		}
		for _, one := range card.IpConfig.IpAddress {
			if cloud.IPv4(one.IpAddress) && !strings.HasPrefix(one.IpAddress, "169.254.") {
				return one.IpAddress
			}
		}
	}
	if cloud.IPv4(guest.IpAddress) {
		return guest.IpAddress
	}
	return ""
}

// ours reports whether a virtual machine belongs to this cluster.
func (c *Client) ours(m machine) bool {
	return cloud.Ours(c.access, m.settings[clusterIDKey])
}

func (c *Client) machines(ctx context.Context) ([]machine, error) {
	return ask(ctx, c, func(l *login) ([]machine, error) { return l.machines(ctx) })
}

// Servers returns all instances of the cluster, in any status, by node, the oldest first.
func (c *Client) Servers(ctx context.Context, _ nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	all, err := c.machines(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string][]reconfigure.Server{}
	for _, m := range all {
		if c.ours(m) {
			found[m.Node] = append(found[m.Node], m.Server)
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

// find returns a virtual machine by its id; false if the datacenter does not have it.
func (c *Client) find(ctx context.Context, id string) (machine, bool, error) {
	if _, err := uuid.Parse(id); err != nil {
		return machine{}, false, fmt.Errorf("instance %q: %w", id, err)
	}
	found, err := ask(ctx, c, func(l *login) (*machine, error) {
		vm, err := object.NewSearchIndex(l.Client.Client).FindByUuid(ctx, l.datacenter, id, true, nil)
		if err != nil || vm == nil {
			return nil, err
		}
		var properties mo.VirtualMachine
		err = l.RetrieveOne(ctx, vm.Reference(), read, &properties)
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		m := look(properties)
		return &m, nil
	})
	if err != nil || found == nil {
		return machine{}, false, err
	}
	return *found, true, nil
}

// must is find, with an error for a missing instance.
func (c *Client) must(ctx context.Context, id string) (machine, error) {
	m, there, err := c.find(ctx, id)
	if err == nil && !there {
		err = reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf("vCenter has no instance %s", id))
	}
	return m, err
}

// Server returns an instance by its id; false if vCenter has none.
func (c *Client) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	m, there, err := c.find(ctx, id)
	return m.Server, there, err
}

// Fault returns vCenter's fault of an instance; empty if there is none, or the instance is gone.
func (c *Client) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	m, _, err := c.find(ctx, id)
	return m.Server.Fault, err
}

// Console returns the host keys that the guest has published. vSphere has no console log.
func (c *Client) Console(ctx context.Context, id string, lines int) (string, error) {
	m, err := c.must(ctx, id)
	if err != nil {
		return "", err
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(m.settings[saidKey]))
	if err != nil {
		return "", fmt.Errorf("instance %s: %s: %w", id, saidKey, err)
	}
	return cloud.LastLines(string(text), lines), nil
}

// Reboot shuts the guest down and starts it again. It switches off a guest that has no VMware Tools or does not shut
// down in time.
func (c *Client) Reboot(ctx context.Context, id string) error {
	m, err := c.must(ctx, id)
	if err != nil {
		return err
	}
	if err := c.shutDown(ctx, m); err != nil {
		return fmt.Errorf("shut down instance %s: %w", id, err)
	}
	if err := c.power(ctx, m, true); err != nil {
		return fmt.Errorf("start instance %s: %w", id, err)
	}
	return nil
}

// shutDown shuts a virtual machine down, and returns when it is off.
func (c *Client) shutDown(ctx context.Context, m machine) error {
	if !m.tools || !m.Active() {
		return c.power(ctx, m, false)
	}
	_, err := ask(ctx, c, func(l *login) (none struct{}, err error) {
		err = object.NewVirtualMachine(l.Client.Client, m.is).ShutdownGuest(ctx)
		if fault.Is(err, &types.InvalidPowerState{}) || fault.Is(err, &types.ToolsUnavailable{}) {
			return none, nil
		}
		return none, err
	})
	if err != nil {
		return err
	}
	for late := time.Now().Add(c.tempo.Soft); ; {
		now, there, err := c.find(ctx, m.ID)
		if err != nil || !there || !now.Active() {
			return err
		}
		if time.Now().After(late) {
			return c.power(ctx, m, false)
		}
		if err := sleep.For(ctx, c.tempo.Poll); err != nil {
			return err
		}
	}
}

// power switches a virtual machine on or off, and returns when the change is done. No change is success.
func (c *Client) power(ctx context.Context, m machine, on bool) error {
	_, err := ask(ctx, c, func(l *login) (none struct{}, err error) {
		vm := object.NewVirtualMachine(l.Client.Client, m.is)
		begin := vm.PowerOff
		if on {
			begin = vm.PowerOn
		}
		task, err := begin(ctx)
		if err == nil {
			err = task.Wait(ctx)
		}
		if fault.Is(err, &types.InvalidPowerState{}) {
			return none, nil
		}
		return none, err
	})
	return err
}

// RemoveServer removes an instance that Terraform does not know, with its disk; the caller MUST make sure that
// Terraform does not know it. RemoveServer first reads the instance again: it must have the cluster's id and the
// name, and have been created before the time; else nothing is removed, and the error says why. A missing instance is
// success.
func (c *Client) RemoveServer(ctx context.Context, id, name string, before time.Time) error {
	m, there, err := c.find(ctx, id)
	if err != nil || !there {
		return err
	}
	if err := cloud.Removable(c.access, m.instance(), name, before); err != nil {
		return err
	}
	if err = c.power(ctx, m, false); err == nil {
		_, err = ask(ctx, c, func(l *login) (none struct{}, err error) {
			task, err := object.NewVirtualMachine(l.Client.Client, m.is).Destroy(ctx)
			if err == nil {
				err = task.Wait(ctx)
			}
			return none, err
		})
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove instance %s: %w", id, err)
	}
	return nil
}
