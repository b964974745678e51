package libvirt

import (
	"context"
	"time"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// Room returns the limits in the table, and the use by all domains of the hosts, also those of others: for all hosts
// together, and for each host by its shard. A domain that is off counts, since it may be started.
func (c *Client) Room(ctx context.Context) (reconfigure.Room, error) {
	all, err := c.domains(ctx)
	if err != nil {
		return reconfigure.Room{}, err
	}
	used := map[string]reconfigure.Use{}
	for _, d := range all {
		used[d.host.shard] = used[d.host.shard].Plus(reconfigure.Use{Instances: 1, Cores: d.cores, RAM: d.memory})
	}
	return placement.Room(c.table.limits(), c.table.Flavors, used), nil
}

// Flavors returns the use by one instance of each flavor, by name and by id.
func (c *Client) Flavors(context.Context) (map[string]reconfigure.Use, error) {
	return c.table.Flavors.UsesByAnyName(), nil
}

// ProjectServers returns all domains of the hosts, also those of others.
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
	found, err := c.domains(ctx)
	var all []cloud.Instance
	for _, d := range found {
		all = append(all, d.instance())
	}
	return all, err
}

// instance returns a domain with its marks.
func (d domain) instance() cloud.Instance {
	return cloud.Instance{Server: d.Server, Name: d.is.Name, Cluster: d.Cluster, ClusterID: d.ClusterID}
}

// Images returns the volumes in the first host's pool that no eiffel cluster has made.
func (c *Client) Images(ctx context.Context) ([]reconfigure.Image, error) {
	domains, err := c.domains(ctx)
	if err != nil {
		return nil, err
	}
	disks := map[string]bool{}
	for _, d := range domains {
		for _, name := range d.volumes {
			disks[name] = true
		}
	}
	return call(ctx, c.hosts[0], func(l *rpc.Libvirt) ([]reconfigure.Image, error) {
		pool, err := l.StoragePoolLookupByName(c.table.Pool)
		if err != nil {
			return nil, err
		}
		volumes, _, err := l.StoragePoolListAllVolumes(pool, 1, 0)
		var all []reconfigure.Image
		for _, v := range volumes {
			if disks[v.Name] {
				continue
			}
			_, capacity, _, err := l.StorageVolGetInfo(v)
			if absent(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, reconfigure.Image{ID: v.Name, Name: v.Name, Status: "active", Size: int64(capacity)})
		}
		return all, err
	})
}

// Clock returns this host's time, since libvirt does not report the time of its hosts.
func (c *Client) Clock(context.Context) (time.Time, error) { return time.Now(), nil }
