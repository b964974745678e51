package existing

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// makeServers makes servers that Terraform does not know, with the image and the metadata of a group, and returns their
// addresses.
func (l *Lab) makeServers(ctx context.Context, of cluster.NodeGroup, names ...string) (addresses []string, err error) {
	url, err := os.ReadFile(l.CloudsFile())
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(url), "auth_url:")
	endpoint := strings.Trim(strings.Fields(rest)[0], `"'`)
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: endpoint,
		Username: "lab", Password: cluster.Password, DomainName: "Default", TenantName: "lab", AllowReauth: true})
	if err != nil {
		return nil, err
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	compute, err := openstack.NewComputeV2(provider, region)
	if err != nil {
		return nil, err
	}
	network, err := openstack.NewNetworkV2(provider, region)
	if err != nil {
		return nil, err
	}
	pages, err := networks.List(network, networks.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	nets, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, err
	}
	pages, err = flavors.ListDetail(compute, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return nil, err
	}
	_, err = keypairs.Create(ctx, compute, keypairs.CreateOpts{Name: "university",
		PublicKey: l.Declaration.KeyPair.PublicKey}).Extract()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return nil, err
	}
	for _, name := range names {
		if _, err := servers.Create(ctx, compute, keypairs.CreateOptsExt{KeyName: "university",
			CreateOptsBuilder: servers.CreateOpts{Name: name, ImageRef: cluster.ImageID(of.Image),
				FlavorRef: sizes[0].ID, Networks: []servers.Network{{UUID: nets[0].ID}},
				Metadata: of.Metadata}}, nil).Extract(); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		for {
			if s, ok := l.Server(name); ok && s.Status == "ACTIVE" {
				addresses = append(addresses, s.Addresses[0].String())
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return addresses, ctx.Err()
}
