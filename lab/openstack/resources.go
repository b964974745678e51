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

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// Region is the only region.
const Region = "RegionOne"

// login returns a user's credentials.
func login(user, password, project string) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: url(thePorts().Identity, "/v3"), Username: user, Password: password, DomainName: "Default",
		TenantName: project, AllowReauth: true,
	}
}

// Member and Admin return the credentials of the project's user, who has the rights of a member there, and of the
// cloud's administrator.
func Member(cfg labcloud.Config) gophercloud.AuthOptions {
	return login(cfg.User, cfg.Password, cfg.Project)
}
func Admin() gophercloud.AuthOptions { return login("admin", password, "admin") }

// newClient logs in and returns a client of one service.
func newClient(
	ctx context.Context, user gophercloud.AuthOptions,
	service func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error),
) (*gophercloud.ServiceClient, error) {
	provider, err := openstack.AuthenticatedClient(ctx, user)
	if err != nil {
		return nil, err
	}
	return service(provider, gophercloud.EndpointOpts{Region: Region})
}

// newCompute logs in and returns a client of Nova.
func newCompute(ctx context.Context, user gophercloud.AuthOptions) (*gophercloud.ServiceClient, error) {
	client, err := newClient(ctx, user, openstack.NewComputeV2)
	if err != nil {
		return nil, err
	}
	client.Microversion = "2.79"
	return client, nil
}

// addIdentities adds the services' endpoints, the project and its user.
func (r *runner) addIdentities(ctx context.Context) error {
	identity, err := newClient(ctx, Admin(), openstack.NewIdentityV3)
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
	project, err := projects.Create(ctx, identity,
		projects.CreateOpts{Name: r.Cloud.Project, DomainID: "default"}).Extract()
	if err != nil {
		return err
	}
	user, err := users.Create(ctx, identity, users.CreateOpts{
		Name: r.Cloud.User, Password: r.Cloud.Password, DomainID: "default", DefaultProjectID: project.ID,
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

// addResources adds flavors and images as the administrator, and the networks as the project's user.
func (r *runner) addResources(ctx context.Context) error {
	compute, err := newCompute(ctx, Admin())
	if err != nil {
		return err
	}
	for _, f := range r.Cloud.Flavors {
		if _, err := flavors.Create(ctx, compute, flavors.CreateOpts{
			ID: f.ID, Name: f.Name, VCPUs: f.VCPUs, RAM: f.RAM, Disk: &f.Disk,
		}).Extract(); err != nil {
			return fmt.Errorf("flavor %s: %w", f.Name, err)
		}
	}
	image, err := newClient(ctx, Admin(), openstack.NewImageV2)
	if err != nil {
		return err
	}
	for _, i := range r.Cloud.Images {
		if err := addImage(ctx, image, i); err != nil {
			return err
		}
	}
	return r.addNetworks(ctx)
}

// addImage adds a public image.
func addImage(ctx context.Context, client *gophercloud.ServiceClient, i labcloud.Image) error {
	public := images.ImageVisibilityPublic
	made, err := images.Create(ctx, client, images.CreateOpts{
		ID: i.ID, Name: i.Name, DiskFormat: "raw", ContainerFormat: "bare", Visibility: &public,
	}).Extract()
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	data := strings.NewReader(strings.Repeat(i.Name, 1024))
	if err := imagedata.Upload(ctx, client, made.ID, data).ExtractErr(); err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	return nil
}

func (r *runner) addNetworks(ctx context.Context) error {
	client, err := newClient(ctx, Member(r.Cloud), openstack.NewNetworkV2)
	if err != nil {
		return err
	}
	for _, wanted := range r.Cloud.Networks {
		n, err := networks.Create(ctx, client, networks.CreateOpts{Name: wanted.Name}).Extract()
		if err != nil {
			return fmt.Errorf("network %s: %w", wanted.Name, err)
		}
		no, gateway := false, ""
		if wanted.Gateway.IsValid() {
			gateway = wanted.Gateway.String()
		}
		if _, err := subnets.Create(ctx, client, subnets.CreateOpts{
			NetworkID: n.ID, Name: wanted.Name, CIDR: wanted.CIDR.String(), IPVersion: gophercloud.IPv4, EnableDHCP: &no,
			GatewayIP: &gateway,
		}).Extract(); err != nil {
			return fmt.Errorf("subnet %s: %w", wanted.Name, err)
		}
	}
	return nil
}

// AddImage adds a public image. An id that an earlier image had is rejected.
func (c *Cloud) AddImage(ctx context.Context, i labcloud.Image) error {
	client, err := newClient(ctx, Admin(), openstack.NewImageV2)
	if err != nil {
		return err
	}
	return addImage(ctx, client, i)
}
