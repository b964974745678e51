package openstack

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Clouds returns the names in the clouds.yaml that a cluster directory uses, sorted; none if there is no such file.
func Clouds(dir string) ([]string, error) {
	path := cloudsFileFound(CloudsFile(dir))
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Clouds map[string]yaml.Node `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return slices.Sorted(maps.Keys(file.Clouds)), nil
}

// Offer returns the names of what the project may use: active images, flavors and networks.
func (c *Client) Offer(ctx context.Context) (reconfigure.Offer, error) {
	var offer reconfigure.Offer
	images, err := c.Images(ctx)
	if err != nil {
		return offer, err
	}
	for _, i := range images {
		if i.Active() {
			offer.Images = append(offer.Images, i.Name)
		}
	}
	flavors, err := c.flavors(ctx)
	if err != nil {
		return offer, c.failed("list the flavors of", err)
	}
	for _, f := range flavors {
		offer.Flavors = append(offer.Flavors, f.Name)
	}
	pages, err := networks.List(c.network, networks.ListOpts{}).AllPages(ctx)
	if err != nil {
		return offer, c.failed("list the networks of", err)
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		return offer, c.failed("list the networks of", err)
	}
	for _, n := range all {
		offer.Networks = append(offer.Networks, n.Name)
	}
	for _, names := range []*[]string{&offer.Images, &offer.Flavors, &offer.Networks} {
		slices.Sort(*names)
	}
	return offer, nil
}
