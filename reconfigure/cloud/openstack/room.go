package openstack

import (
	"context"
	"maps"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Room returns the project's quota and its use by all servers of the project (Nova's API, Show Rate And Absolute
// Limits). It has neither Neutron's quotas nor the free capacity of the hosts.
func (c *Client) Room(ctx context.Context) (reconfigure.Room, error) {
	answer, err := limits.Get(ctx, c.compute, limits.GetOpts{}).Extract()
	if err != nil {
		return reconfigure.Room{}, c.failed("ask for the limits of", err)
	}
	all, err := c.flavors(ctx)
	if err != nil {
		return reconfigure.Room{}, c.failed("list the flavors of", err)
	}
	a := answer.Absolute
	room := reconfigure.Room{
		Limit:   reconfigure.Use{Instances: a.MaxTotalInstances, Cores: a.MaxTotalCores, RAM: a.MaxTotalRAMSize},
		Used:    reconfigure.Use{Instances: a.TotalInstancesUsed, Cores: a.TotalCoresUsed, RAM: a.TotalRAMUsed},
		Flavors: map[string]reconfigure.Use{},
	}
	for _, f := range all {
		room.Flavors[f.ID] = reconfigure.Use{Instances: 1, Cores: f.VCPUs, RAM: f.RAM}
	}
	return room, nil
}

// flavors returns all flavors that the project may use.
func (c *Client) flavors(ctx context.Context) ([]flavors.Flavor, error) {
	pages, err := flavors.ListDetail(c.compute, flavors.ListOpts{AccessType: flavors.AllAccess}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return flavors.ExtractFlavors(pages)
}

// Flavors returns the use of a quota by each flavor, by id and by name. It leaves out names that several flavors
// have.
func (c *Client) Flavors(ctx context.Context) (map[string]reconfigure.Use, error) {
	all, err := c.flavors(ctx)
	if err != nil {
		return nil, c.failed("list the flavors of", err)
	}
	uses, named := map[string]reconfigure.Use{}, map[string]int{}
	for _, f := range all {
		named[f.Name]++
		uses[f.Name] = reconfigure.Use{Instances: 1, Cores: f.VCPUs, RAM: f.RAM}
	}
	maps.DeleteFunc(uses, func(name string, _ reconfigure.Use) bool { return named[name] > 1 })
	for _, f := range all {
		uses[f.ID] = reconfigure.Use{Instances: 1, Cores: f.VCPUs, RAM: f.RAM}
	}
	return uses, nil
}
