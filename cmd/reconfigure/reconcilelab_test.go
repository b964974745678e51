package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/rogpeppe/go-internal/testscript"
)

// nova logs in to the script's cloud as an administrator would who goes past the tool.
func (l *scriptLab) nova(ctx context.Context) (*gophercloud.ServiceClient, error) {
	auth, endpoint, tls, err := clouds.Parse(
		clouds.WithCloudName("openstack"),
		clouds.WithLocations(filepath.Join(l.work, "clouds.yaml")),
	)
	if err != nil {
		return nil, err
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	return openstack.NewComputeV2(provider, endpoint)
}

func makeStray(ts *testscript.TestScript, args []string) error {
	ctx, lab := context.Background(), labOf(ts)
	nova, err := lab.nova(ctx)
	if err != nil {
		return err
	}
	pages, err := flavors.ListDetail(nova, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	kinds, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return err
	}
	made, err := servers.Create(ctx, nova, servers.CreateOpts{
		Name: args[0], ImageRef: "11111111-0000-4000-8000-000000000001", FlavorRef: kinds[0].ID,
		Metadata: map[string]string{"eiffel_cluster": args[1]},
	}, nil).Extract()
	if err != nil {
		return err
	}
	return eventually(args[0]+" is ACTIVE", func() (bool, error) {
		s, err := servers.Get(ctx, nova, made.ID).Extract()
		return err == nil && s.Status == "ACTIVE", err
	})
}

func removeServer(ts *testscript.TestScript, args []string) error {
	ctx, lab := context.Background(), labOf(ts)
	nova, err := lab.nova(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range lab.cloud.Servers() {
		if s.Name == args[0] {
			errs = append(errs, servers.Delete(ctx, nova, s.ID).ExtractErr())
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("there is no server %s", args[0])
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return eventually(args[0]+" is gone", func() (bool, error) {
		for _, s := range lab.cloud.Servers() {
			if s.Name == args[0] {
				return false, nil
			}
		}
		return true, nil
	})
}
