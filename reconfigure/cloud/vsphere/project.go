package vsphere

import (
	"context"
	"path"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// Room returns the limits in the entry, and the use by all virtual machines, also those of others: on each host of
// the table, by its shard, or in the resource pool and the pools in it. A machine that is off counts, since it may be
// started.
func (c *Client) Room(ctx context.Context) (reconfigure.Room, error) {
	return ask(ctx, c, func(l *login) (reconfigure.Room, error) {
		all, err := l.machines(ctx)
		if err != nil {
			return reconfigure.Room{}, err
		}
		if len(c.table.Hosts) > 0 {
			return placement.Room(c.table.limits(), c.table.Flavors, perHost(c.table, all)), nil
		}
		pool, err := l.inPool(ctx, c.table.ResourcePool)
		if err != nil {
			return reconfigure.Room{}, err
		}
		room := reconfigure.Room{Limit: c.table.Use(), Flavors: c.table.Flavors.Uses()}
		for _, m := range all {
			if pool[m.is] {
				room.Used = room.Used.Plus(m.use())
			}
		}
		return room, nil
	})
}

// perHost returns the use by the virtual machines on each host of a table, by its shard. The table has a host by its
// name or its path in the inventory.
func perHost(t Table, all []machine) map[string]reconfigure.Use {
	shards := map[string]string{}
	for i, h := range t.Hosts {
		shards[path.Base(h.Name)] = placement.Shard(i)
	}
	used := map[string]reconfigure.Use{}
	for _, m := range all {
		if shard, ours := shards[m.Host]; ours {
			used[shard] = used[shard].Plus(m.use())
		}
	}
	return used
}

func (m machine) use() reconfigure.Use {
	return reconfigure.Use{Instances: 1, Cores: m.cores, RAM: m.memory}
}

// inPool returns the virtual machines of a resource pool and of the pools in it.
func (l *login) inPool(ctx context.Context, name string) (map[types.ManagedObjectReference]bool, error) {
	pool, err := l.finder.ResourcePool(ctx, name)
	if err != nil {
		return nil, err
	}
	below, err := l.view(ctx, pool.Reference(), "ResourcePool")
	if err != nil {
		return nil, err
	}
	defer destroy(ctx, below)
	var pools []mo.ResourcePool
	if err := below.Retrieve(ctx, []string{"ResourcePool"}, []string{"vm"}, &pools); err != nil {
		return nil, err
	}
	var own mo.ResourcePool
	if err := l.RetrieveOne(ctx, pool.Reference(), []string{"vm"}, &own); err != nil {
		return nil, err
	}
	inside := map[types.ManagedObjectReference]bool{}
	for _, p := range append(pools, own) {
		for _, vm := range p.Vm {
			inside[vm] = true
		}
	}
	return inside, nil
}

// Flavors returns the use by one instance of each flavor, by name and by id.
func (c *Client) Flavors(context.Context) (map[string]reconfigure.Use, error) {
	return c.table.Flavors.UsesByAnyName(), nil
}

// ProjectServers returns all virtual machines of the datacenter, also those of others.
func (c *Client) ProjectServers(ctx context.Context) ([]reconfigure.ProjectServer, error) {
	all, err := c.instances(ctx)
	return cloud.ProjectServers(c.access, all), err
}

// Namesakes returns the instances with the cluster's name and another id, by that id.
func (c *Client) Namesakes(ctx context.Context) (map[string][]reconfigure.Server, error) {
	all, err := c.instances(ctx)
	if err != nil {
		return nil, err
	}
	return cloud.Namesakes(c.access, all), nil
}

func (c *Client) instances(ctx context.Context) ([]cloud.Instance, error) {
	found, err := c.machines(ctx)
	var all []cloud.Instance
	for _, m := range found {
		all = append(all, m.instance())
	}
	return all, err
}

// instance returns a virtual machine with its marks.
func (m machine) instance() cloud.Instance {
	return cloud.Instance{
		Server: m.Server, Name: m.name, Cluster: m.settings[clusterKey], ClusterID: m.settings[clusterIDKey],
	}
}

// Images returns the templates of the datacenter.
func (c *Client) Images(ctx context.Context) ([]reconfigure.Image, error) {
	return ask(ctx, c, func(l *login) ([]reconfigure.Image, error) {
		inventory, err := l.view(ctx, l.datacenter.Reference(), "VirtualMachine")
		if err != nil {
			return nil, err
		}
		defer destroy(ctx, inventory)
		var listed []mo.VirtualMachine
		err = inventory.Retrieve(ctx, []string{"VirtualMachine"}, []string{"name", "config"}, &listed)
		var all []reconfigure.Image
		for _, vm := range listed {
			if vm.Config == nil || !vm.Config.Template {
				continue
			}
			t, err := templateOf(*vm.Config)
			if err != nil {
				continue // a node cannot be made of it
			}
			all = append(all, reconfigure.Image{
				ID: t.id(), Name: vm.Name, Status: "active", Size: int64(t.disk) << 30,
			})
		}
		return all, err
	})
}

// Clock returns vCenter's time.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	return ask(ctx, c, func(l *login) (time.Time, error) {
		now, err := methods.GetCurrentTime(ctx, l.Client.Client)
		if err != nil {
			return time.Time{}, err
		}
		return *now, nil
	})
}
