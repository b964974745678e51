package site

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
)

// Clouds returns the names of the clouds that a new site folder may declare, of the default kind; none if there is no
// file with credentials.
func Clouds(dir string) ([]string, error) { return openstack.Clouds(dir) }

// Offer asks a cloud of the default kind what it has for a new declaration. The call may be retried.
func Offer(ctx context.Context, dir, cloud string) (reconfigure.Offer, error) {
	c, err := openstack.Open(ctx, reconfigure.Access{Cloud: cloud, Dir: dir})
	if err != nil {
		return reconfigure.Offer{}, err
	}
	return c.Offer(ctx)
}

// Modules returns the folders in a site folder in which Terraform runs, relative to it, of all kinds of clouds.
func Modules() []string {
	var all []string
	for _, p := range providers() {
		if !p.Existing {
			all = append(all, "terraform/"+p.Name)
		}
	}
	return all
}
