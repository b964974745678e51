package vcenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// Cloud is a vCenter whose virtual machines are machines of a lab.
type Cloud struct {
	*Center
	cfg      labcloud.Config
	machines *machines
	end      context.CancelFunc

	lock sync.Mutex
	last []labcloud.Server
}

// New starts a vCenter with a hypervisor. Its templates are images of the configuration, by their names, and its
// network is the first one of the configuration. It closes neither the hypervisor nor, after an error, itself.
func New(ctx context.Context, cfg labcloud.Config, h Hypervisor) (*Cloud, error) {
	network := cfg.Networks[0]
	m := &machines{
		Hypervisor: h, images: map[string]string{}, router: netip.PrefixFrom(network.Gateway, network.CIDR.Bits()),
		log: cfg.Log, clones: map[string]string{}, disks: map[types.ManagedObjectReference]*disk{},
	}
	for _, i := range cfg.Images {
		m.images[i.Name] = i.ID
	}
	c := &Cloud{cfg: cfg, machines: m}
	m.set = c.set
	m.ctx, c.end = context.WithCancel(context.Background())
	var err error
	if c.Center, err = start(ctx, m.router, m); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// Close ends the vCenter. The hypervisor keeps the machines.
func (c *Cloud) Close(context.Context) error {
	c.end()
	c.machines.guests.Wait()
	c.Center.Close()
	return nil
}

// set sets a setting of a virtual machine.
func (c *Cloud) set(of types.ManagedObjectReference, key, value string) error {
	ctx := c.machines.ctx
	task, err := object.NewVirtualMachine(c.client.Client, of).Reconfigure(ctx, types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}},
	})
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Files returns vsphere.yaml, with the vCenter under the given name and the flavors of the configuration, and
// vsphere.pem.
func (c *Cloud) Files(name string) map[string][]byte {
	flavors := map[string]any{}
	for _, f := range c.cfg.Flavors {
		flavors[f.Name] = map[string]int{"cores": f.VCPUs, "memory": f.RAM, "disk": f.Disk}
	}
	text, _ := yaml.Marshal(map[string]any{"clouds": map[string]any{name: map[string]any{
		"server": c.Server(), "user": User, "password": Password, "datacenter": Datacenter, "datastore": Datastore,
		"resource_pool": Pool, "flavors": flavors,
	}}})
	return map[string][]byte{"vsphere.yaml": text, "vsphere.pem": c.Certificate()}
}

// Servers returns the virtual machines that are not templates, oldest first, with the names in their seeds. If vCenter
// does not answer, it returns those of the last answer.
func (c *Cloud) Servers() []labcloud.Server {
	list, err := c.servers(context.Background())
	c.lock.Lock()
	defer c.lock.Unlock()
	if err == nil {
		c.last = list
	}
	return c.last
}

func (c *Cloud) servers(ctx context.Context) (list []labcloud.Server, err error) {
	inventory, err := view.NewManager(c.client.Client).CreateContainerView(ctx, c.client.ServiceContent.RootFolder,
		[]string{"VirtualMachine"}, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, inventory.Destroy(ctx)) }()
	var all []mo.VirtualMachine
	properties := []string{"name", "config", "runtime.powerState", "guest.net"}
	if err := inventory.Retrieve(ctx, []string{"VirtualMachine"}, properties, &all); err != nil {
		return nil, err
	}
	for _, vm := range all {
		if vm.Config == nil || vm.Config.Template {
			continue
		}
		s, _ := readSeed(vm.Config.ExtraConfig) // a clone has none before its first settings
		server := labcloud.Server{
			ID: vm.Config.Uuid, Name: cmp.Or(s.Name, vm.Name), Status: "SHUTOFF", Image: c.machines.image(vm.Self),
			Flavor: fmt.Sprintf("%dx%d", vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB),
		}
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			server.Status = "ACTIVE"
		}
		if vm.Config.CreateDate != nil {
			server.Created = *vm.Config.CreateDate
		}
		for _, card := range vm.Guest.Net {
			for _, text := range card.IpAddress {
				if address, err := netip.ParseAddr(text); err == nil {
					server.Addresses = append(server.Addresses, address)
				}
			}
		}
		list = append(list, server)
	}
	slices.SortStableFunc(list, func(a, b labcloud.Server) int { return a.Created.Compare(b.Created) })
	return list, nil
}
