package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"

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

// FreePorts returns how many more ports Neutron's quota of the project admits.
func (c *Client) FreePorts(ctx context.Context) (int, error) {
	login, ok := c.network.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	})
	if !ok {
		return 0, errors.New("the login to the cloud names no project")
	}
	project, err := login.ExtractProject()
	if err != nil || project == nil {
		return 0, fmt.Errorf("read the project of the login to the cloud: %w", cmp.Or(err, errNoProject))
	}
	quota, err := quotas.GetDetail(ctx, c.network, project.ID).Extract()
	if err != nil {
		return 0, c.failed("ask for the network quota of", err)
	}
	if quota.Port.Limit < 0 {
		return math.MaxInt, nil
	}
	return quota.Port.Limit - quota.Port.Used - quota.Port.Reserved, nil
}

var errNoProject = errors.New("it has none")

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
