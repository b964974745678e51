package vcenter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// Hypervisor runs the machines of virtual machines.
type Hypervisor interface {
	labcloud.Hypervisor
	// Command returns a command that runs as root in a machine that is switched on.
	Command(id string, argv ...string) *exec.Cmd
}

// machines runs a machine for each virtual machine of a vCenter, by the virtual machine's UUID. At the first boot of an
// instance it does cloud-init's work, as far as the root module needs it.
type machines struct {
	Hypervisor
	images map[string]string // the hypervisor's image of each template, by the template's name
	router netip.Prefix      // of the network
	log    *slog.Logger
	// set sets a setting of a virtual machine, as a guest does by VMware Tools.
	set func(of types.ManagedObjectReference, key, value string) error

	ctx    context.Context // ends with the vCenter
	guests sync.WaitGroup  // running first boots and reboots
	lock   sync.Mutex
	clones map[string]string // the image of each clone, by the clone's name
	disks  map[types.ManagedObjectReference]*disk
}

// disk is the disk of a virtual machine.
type disk struct {
	machine string
	image   string // empty before the first boot
	gently  bool   // the guest has been asked to shut down
}

// call records what the changes of a virtual machine do not show: the template of a clone, and requests to shut down or
// reboot the guest. The simulator calls it before each call of its API.
func (m *machines) call(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	vm, ok := ctx.Map.Get(method.This).(*simulator.VirtualMachine)
	if !ok {
		return nil, nil
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	d := m.disks[vm.Self] // nil for a template
	switch body := method.Body.(type) {
	case *types.CloneVM_Task:
		m.clones[body.Name] = m.images[vm.Name]
	case *types.ShutdownGuest:
		if d != nil {
			d.gently = true
		}
	case *types.RebootGuest:
		if d != nil {
			m.guests.Go(func() { m.reboot(ctx, vm, d.machine) })
		}
	}
	return nil, nil
}

// reboot restarts a guest if it is switched on.
func (m *machines) reboot(ctx *simulator.Context, vm *simulator.VirtualMachine, id string) {
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
			return
		}
		if err := m.Reboot(m.ctx, id, false); err != nil {
			m.log.Error("machine is not rebooted", "name", vm.Name, "error", err)
		}
	})
}

// made gives a new virtual machine its disk.
func (m *machines) made(vm *simulator.VirtualMachine) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.disks[vm.Self] = &disk{machine: vm.Config.Uuid}
}

// removed removes the machine of a virtual machine.
func (m *machines) removed(ref types.ManagedObjectReference) {
	m.lock.Lock()
	d := m.disks[ref]
	delete(m.disks, ref)
	m.lock.Unlock()
	if d == nil {
		return
	}
	if err := m.Destroy(m.ctx, d.machine); err != nil {
		m.log.Error("machine is not removed", "id", d.machine, "error", err)
	}
}

// image returns the hypervisor's image of a virtual machine's disk; empty if it has none.
func (m *machines) image(of types.ManagedObjectReference) string {
	m.lock.Lock()
	defer m.lock.Unlock()
	if d := m.disks[of]; d != nil {
		return d.image
	}
	return ""
}

// imageFor records the image from which a virtual machine is cloned, and reports whether that was unknown. A virtual
// machine that is new to the simulator has no name yet.
func (m *machines) imageFor(vm *mo.VirtualMachine) (first bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	d := m.disks[vm.Self]
	d.gently = false
	if first = d.image == ""; first {
		d.image = m.clones[vm.Name]
	}
	return first
}

// power switches the machine of a virtual machine on or off, and returns when that is done. A machine that does not
// boot is like a hung guest.
func (m *machines) power(vm *mo.VirtualMachine, address netip.Addr, on bool) {
	m.lock.Lock()
	d := m.disks[vm.Self]
	m.lock.Unlock()
	var err error
	switch {
	case d == nil:
		err = errors.New("the virtual machine has no disk")
	case on:
		err = m.boot(vm, d, address)
	default:
		err = m.stop(d)
	}
	if err != nil {
		m.log.Error("machine is not switched", "name", vm.Name, "on", on, "error", err)
	}
}

// stop switches a machine off. Its services may stop first if the guest was asked to shut down.
func (m *machines) stop(d *disk) error {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	m.lock.Lock()
	if !d.gently {
		cancel() // the hypervisor does not wait for anything
	}
	d.gently = false
	m.lock.Unlock()
	return m.Stop(ctx, d.machine)
}

// boot switches a machine on.
func (m *machines) boot(vm *mo.VirtualMachine, d *disk, address netip.Addr) error {
	s, err := readSeed(vm.Config.ExtraConfig)
	if err != nil {
		return err
	}
	first := m.imageFor(vm)
	if err := m.Boot(m.ctx, labcloud.Machine{
		ID: d.machine, Name: s.Name, ImageID: d.image, AuthorizedKeys: s.Keys,
		Addresses: []labcloud.Address{{
			MAC: hardwareAddress(address), Prefix: netip.PrefixFrom(address, m.router.Bits()), Gateway: m.router.Addr(),
		}},
	}); err != nil || !first {
		return err
	}
	ref := vm.Self
	m.guests.Go(func() {
		if err := m.firstBoot(ref, d.machine, s.Commands); err != nil && m.ctx.Err() == nil {
			m.log.Error("first boot does not end", "name", s.Name, "error", err)
		}
	})
	return nil
}

// hardwareAddress returns one of VMware's hardware addresses, derived from an IP address. Network cards of the
// simulator have only three characters of a UUID, which two virtual machines may share.
func hardwareAddress(a netip.Addr) string {
	is := a.As4()
	return fmt.Sprintf("00:50:56:%02x:%02x:%02x", is[1]&0x3f, is[2], is[3])
}

// seed is cloud-init's data for a virtual machine (its data source VMware).
type seed struct {
	Name     string     `yaml:"local-hostname"`
	Keys     []string   `yaml:"ssh_authorized_keys"`
	Commands [][]string `yaml:"runcmd"`
}

// readSeed reads the seed in the settings of a virtual machine, which must be in base64.
func readSeed(settings []types.BaseOptionValue) (seed, error) {
	is := map[string]string{}
	for _, one := range settings {
		option := one.GetOptionValue()
		is[option.Key], _ = option.Value.(string)
	}
	var s seed
	for _, key := range []string{"guestinfo.metadata", "guestinfo.userdata"} {
		text, err := base64.StdEncoding.DecodeString(is[key])
		if err == nil && is[key+".encoding"] != "base64" {
			err = fmt.Errorf("encoding %q, want base64", is[key+".encoding"])
		}
		if err == nil {
			err = yaml.Unmarshal(text, &s)
		}
		if err != nil {
			return seed{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if s.Name == "" {
		return seed{}, errors.New("guestinfo.metadata has no local-hostname")
	}
	return s, nil
}

// rpctool makes the program of VMware Tools with which guests set settings. It prints its arguments, which are thus the
// output of a seed's commands.
const rpctool = `cat >/usr/bin/vmware-rpctool <<'end' && chmod 0755 /usr/bin/vmware-rpctool
#!/bin/sh
printf '%s\n' "$1"
end`

// firstBoot runs the commands of a machine's seed when it has made its host keys.
func (m *machines) firstBoot(ref types.ManagedObjectReference, id string, commands [][]string) error {
	if there, err := m.awaitHostKeys(ref, id); err != nil || !there {
		return err
	}
	for _, argv := range append([][]string{{"sh", "-c", rpctool}}, commands...) {
		out, err := m.Command(id, argv...).Output()
		if err != nil {
			return fmt.Errorf("%q: %w", argv, err)
		}
		for line := range strings.Lines(string(out)) {
			if words := strings.Fields(line); len(words) == 3 && words[0] == "info-set" {
				if err := m.set(ref, words[1], words[2]); err != nil {
					return fmt.Errorf("set %s: %w", words[1], err)
				}
			}
		}
	}
	return nil
}

// awaitHostKeys waits until a machine has shown its host keys on its console. It returns false if the virtual machine
// is removed before.
func (m *machines) awaitHostKeys(of types.ManagedObjectReference, id string) (there bool, err error) {
	const last = "-----END SSH HOST KEY KEYS-----"
	ctx, cancel := context.WithTimeout(m.ctx, 2*time.Minute)
	defer cancel()
	for {
		text, err := m.Console(id, 0)
		if err != nil || strings.Contains(text, last) {
			return true, err
		}
		if m.image(of) == "" {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("no host keys on the console: %w: %s", ctx.Err(), text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
