package cloudtest

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
)

// Cloud is a cloud to check. It has a network "cluster" of 10.60.0.0/16, the images "node-v1" and "node-v2", and the
// flavors "small" (1 core, 512 MiB), "big" (8 cores, 16 GiB) and "huge", for which no host is found. The project has no
// servers, and no limits.
type Cloud struct {
	// Name is the cloud's name in Differences: "labcloud" or "openstack".
	Name string
	// compute, network and image are clients of the services for the project's user, admin is a client of Nova for
	// the administrator, identity is Keystone's URL.
	compute, network, image, admin *gophercloud.ServiceClient
	identity                       string
	// ids has the ids that requests need, by the words that stand for them in paths and bodies.
	ids map[string]string
	// asked has the kinds of filtered lists that the checks requested.
	asked map[string]bool
}

// Connect returns a cloud, given a user of its project and its administrator. labcloud's only user is its
// administrator.
func Connect(ctx context.Context, name string, member, admin gophercloud.AuthOptions) (*Cloud, error) {
	c := &Cloud{Name: name, identity: member.IdentityEndpoint, ids: map[string]string{}, asked: map[string]bool{}}
	provider, err := openstack.AuthenticatedClient(ctx, member)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", member.Username, err)
	}
	administrator, err := openstack.AuthenticatedClient(ctx, admin)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", admin.Username, err)
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	for _, service := range []struct {
		to       **gophercloud.ServiceClient
		provider *gophercloud.ProviderClient
		make     func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&c.compute, provider, openstack.NewComputeV2}, {&c.network, provider, openstack.NewNetworkV2},
		{&c.image, provider, openstack.NewImageV2}, {&c.admin, administrator, openstack.NewComputeV2},
	} {
		if *service.to, err = service.make(service.provider, region); err != nil {
			return nil, err
		}
	}
	c.compute.Microversion, c.admin.Microversion = "2.79", "2.79"
	return c, c.find(ctx)
}

// find finds the ids of the cloud's resources.
func (c *Cloud) find(ctx context.Context) error {
	for _, list := range []struct {
		client *gophercloud.ServiceClient
		key    string
	}{{c.compute, "flavors"}, {c.image, "images"}, {c.network, "networks"}} {
		// The answers also have keys that are not lists.
		var body map[string]any
		if _, err := list.client.Get(ctx, list.client.ServiceURL(list.key), &body, nil); err != nil {
			return err
		}
		for _, item := range items(body, list.key) {
			c.ids["{"+text(item, "name")+"}"] = text(item, "id")
			if list.key == "networks" {
				c.ids["{project}"] = text(item, "project_id") // the networks belong to the project
			}
		}
	}
	for _, word := range []string{"{small}", "{big}", "{huge}", "{node-v1}", "{node-v2}", "{cluster}"} {
		if c.ids[word] == "" {
			return fmt.Errorf("the cloud %s has no %s", c.Name, word)
		}
	}
	c.ids["{absent}"] = "00000000-0000-0000-0000-000000000000"
	return nil
}
