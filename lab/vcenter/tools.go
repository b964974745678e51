package vcenter

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// tools simulates the VMware Tools of all virtual machines, and DHCP for their network. The simulator calls it at each
// change of an object.
type tools struct {
	router   netip.Prefix // the address of the network's router
	machines *machines    // nil: the virtual machines run nothing

	lock      sync.Mutex
	last      netip.Addr // the newest address
	addresses map[types.ManagedObjectReference]netip.Addr
	starts    map[types.ManagedObjectReference]int
	muted     map[string]bool
}

func newTools(router netip.Prefix, m *machines) *tools {
	return &tools{
		router: router, machines: m, last: router.Addr(), addresses: map[types.ManagedObjectReference]netip.Addr{},
		starts: map[types.ManagedObjectReference]int{}, muted: map[string]bool{},
	}
}

func (t *tools) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Tools", Value: "tools"}
}

// PutObject gives a virtual machine a unique id, as a vCenter does. The simulator's own id depends on the name.
func (t *tools) PutObject(_ *simulator.Context, made mo.Reference) {
	if vm, ok := made.(*simulator.VirtualMachine); ok {
		vm.Config.Uuid = uuid.NewString()
		vm.Summary.Config.Uuid = vm.Config.Uuid
		if t.machines != nil {
			t.machines.made(vm)
		}
	}
}

// RemoveObject frees the address of a virtual machine, and removes its machine.
func (t *tools) RemoveObject(_ *simulator.Context, removed types.ManagedObjectReference) {
	if t.machines != nil {
		t.machines.removed(removed)
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.addresses, removed)
}

// UpdateObject answers a change of the power state. The simulator has locked the virtual machine, so the new state
// becomes visible only when the machine has it too.
func (t *tools) UpdateObject(ctx *simulator.Context, changed mo.Reference, changes []types.PropertyChange) {
	vm, ok := changed.(*mo.VirtualMachine)
	if !ok {
		return
	}
	for _, change := range changes {
		if change.Name == "runtime.powerState" {
			on := change.Val == types.VirtualMachinePowerStatePoweredOn
			address := t.address(vm.Self)
			if t.machines != nil {
				t.machines.power(vm, address, on)
			}
			ctx.Update(changed, t.guest(vm, address.String(), on))
		}
	}
}

// guest returns the state of the guest after it was switched on or off.
func (t *tools) guest(vm *mo.VirtualMachine, address string, on bool) []types.PropertyChange {
	t.lock.Lock()
	defer t.lock.Unlock()
	status := types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
	cards := append([]types.GuestNicInfo{}, vm.Guest.Net...)
	muted := t.muted[vm.Name]
	if on {
		t.starts[vm.Self]++
		delete(t.muted, vm.Name)
		status = types.VirtualMachineToolsRunningStatusGuestToolsRunning
	}
	for i := range cards {
		cards[i].IpAddress, cards[i].IpConfig = nil, nil
		if on && !muted {
			cards[i].IpAddress = []string{address}
			cards[i].IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{
				{IpAddress: address, PrefixLength: int32(t.router.Bits()), State: "preferred"},
			}}
		}
	}
	return []types.PropertyChange{
		{Name: "guest.net", Val: cards}, {Name: "guest.toolsRunningStatus", Val: string(status)},
	}
}

// address returns the address of a virtual machine, which keeps it until it is removed. A new address is the next free
// one, so that a new instance of a node has another address than the old one.
func (t *tools) address(ref types.ManagedObjectReference) netip.Addr {
	t.lock.Lock()
	defer t.lock.Unlock()
	if a, there := t.addresses[ref]; there {
		return a
	}
	taken := append(slices.Collect(maps.Values(t.addresses)), t.router.Addr())
	for {
		t.last = t.last.Next()
		if !t.router.Contains(t.last.Next()) { // the last address is for broadcasts
			t.last = t.router.Masked().Addr().Next()
		}
		if !slices.Contains(taken, t.last) {
			t.addresses[ref] = t.last
			return t.last
		}
	}
}

func (t *tools) mute(name string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.muted[name] = true
}
