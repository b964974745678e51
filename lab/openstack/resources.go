package openstack

import (
	"context"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// What a cloud has from the start.
const (
	// Region is the only one.
	Region = "RegionOne"
	// Project is the project of User, who may do there what members may.
	Project, User = "lab", "operator"
	// Network is the only network, of 10.60.0.0/16 and without a gateway.
	Network = "cluster"
	// ImageV1 and ImageV2 are the names of public images.
	ImageV1, ImageV2 = "node-v1", "node-v2"
	// Small and Big are the names of flavors: 1 core and 512 MiB, 8 cores and 16 GiB. Huge is one for which no host is
	// large enough.
	Small, Big, Huge = "small", "big", "huge"
)

// login returns how a user authenticates.
func login(user, project string) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: url(thePorts().Identity, "/v3"), Username: user, Password: password, DomainName: "Default",
		TenantName: project, AllowReauth: true,
	}
}

// Member and Admin return how the user of the project and the cloud's administrator authenticate.
func Member() gophercloud.AuthOptions { return login(User, Project) }
func Admin() gophercloud.AuthOptions  { return login("admin", "admin") }

// addIdentities adds the services' endpoints, the project and its user.
func addIdentities(ctx context.Context) error {
	provider, err := openstack.AuthenticatedClient(ctx, Admin())
	if err != nil {
		return err
	}
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	p := thePorts()
	for _, s := range []struct{ name, kind, url string }{
		{"placement", "placement", url(p.Placement, "")}, {"glance", "image", url(p.Image, "")},
		{"neutron", "network", url(p.Network, "")}, {"nova", "compute", url(p.Compute, "/v2.1")},
	} {
		service, err := services.Create(ctx, identity,
			services.CreateOpts{Type: s.kind, Extra: map[string]any{"name": s.name}}).Extract()
		if err != nil {
			return fmt.Errorf("service %s: %w", s.name, err)
		}
		if _, err := endpoints.Create(ctx, identity, endpoints.CreateOpts{
			Availability: gophercloud.AvailabilityPublic, Name: s.name, Region: Region, URL: s.url,
			ServiceID: service.ID,
		}).Extract(); err != nil {
			return fmt.Errorf("endpoint of %s: %w", s.name, err)
		}
	}
	project, err := projects.Create(ctx, identity, projects.CreateOpts{Name: Project, DomainID: "default"}).Extract()
	if err != nil {
		return err
	}
	user, err := users.Create(ctx, identity, users.CreateOpts{
		Name: User, Password: password, DomainID: "default", DefaultProjectID: project.ID,
	}).Extract()
	if err != nil {
		return err
	}
	pages, err := roles.List(identity, roles.ListOpts{Name: "member"}).AllPages(ctx)
	if err != nil {
		return err
	}
	member, err := roles.ExtractRoles(pages)
	if err != nil || len(member) != 1 {
		return fmt.Errorf("role member: %v, %w", member, err)
	}
	return roles.Assign(ctx, identity, member[0].ID,
		roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr()
}

// awaitHost waits until the scheduler has a host for a server.
func (r *runner) awaitHost(ctx context.Context) error {
	provider, err := openstack.AuthenticatedClient(ctx, Admin())
	if err != nil {
		return err
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	compute, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	placement.Microversion, compute.Microversion = "1.29", "2.79"
	return r.until(ctx, "a host", func() bool {
		var candidates struct {
			Requests []any `json:"allocation_requests"`
		}
		_, err := placement.Get(ctx, placement.ServiceURL("allocation_candidates?resources=VCPU:1"), &candidates, nil)
		if err != nil || len(candidates.Requests) == 0 {
			return false
		}
		var hosts struct{ Hypervisors []any }
		_, err = compute.Get(ctx, compute.ServiceURL("os-hypervisors"), &hosts, nil)
		return err == nil && len(hosts.Hypervisors) > 0
	})
}

// addResources adds flavors and images as the administrator, and the network as the project's user.
func addResources(ctx context.Context) error {
	admin, err := openstack.AuthenticatedClient(ctx, Admin())
	if err != nil {
		return err
	}
	region := gophercloud.EndpointOpts{Region: Region}
	compute, err := openstack.NewComputeV2(admin, region)
	if err != nil {
		return err
	}
	one := 1
	for _, f := range []flavors.CreateOpts{
		{Name: Small, VCPUs: 1, RAM: 512, Disk: &one}, {Name: Big, VCPUs: 8, RAM: 16384, Disk: &one},
		{Name: Huge, VCPUs: 1 << 20, RAM: 1 << 30, Disk: &one},
	} {
		if _, err := flavors.Create(ctx, compute, f).Extract(); err != nil {
			return fmt.Errorf("flavor %s: %w", f.Name, err)
		}
	}
	image, err := openstack.NewImageV2(admin, region)
	if err != nil {
		return err
	}
	public := images.ImageVisibilityPublic
	for _, name := range []string{ImageV1, ImageV2} {
		i, err := images.Create(ctx, image, images.CreateOpts{
			Name: name, DiskFormat: "raw", ContainerFormat: "bare", Visibility: &public,
		}).Extract()
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		data := strings.NewReader(strings.Repeat(name, 1024))
		if err := imagedata.Upload(ctx, image, i.ID, data).ExtractErr(); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return addNetwork(ctx)
}

func addNetwork(ctx context.Context) error {
	member, err := openstack.AuthenticatedClient(ctx, Member())
	if err != nil {
		return err
	}
	client, err := openstack.NewNetworkV2(member, gophercloud.EndpointOpts{Region: Region})
	if err != nil {
		return err
	}
	n, err := networks.Create(ctx, client, networks.CreateOpts{Name: Network}).Extract()
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	no, none := false, ""
	if _, err := subnets.Create(ctx, client, subnets.CreateOpts{
		NetworkID: n.ID, Name: Network, CIDR: "10.60.0.0/16", IPVersion: gophercloud.IPv4, EnableDHCP: &no,
		GatewayIP: &none,
	}).Extract(); err != nil {
		return fmt.Errorf("subnet: %w", err)
	}
	return nil
}
