package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// nova is the script's client of the cloud, for an administrator who bypasses the tool.
func (l *scriptLab) nova(ctx context.Context) (*gophercloud.ServiceClient, error) {
	provider, endpoint, err := l.login(ctx)
	if err != nil {
		return nil, err
	}
	return openstack.NewComputeV2(provider, endpoint)
}

func (l *scriptLab) login(
	ctx context.Context,
) (_ *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts, err error) {
	auth, endpoint, tls, err := clouds.Parse(
		clouds.WithCloudName("openstack"),
		clouds.WithLocations(filepath.Join(l.work, "clouds.yaml")),
	)
	if err != nil {
		return nil, endpoint, err
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	return provider, endpoint, err
}

// clusterID returns the id of the cluster, or another id.
func (l *scriptLab) clusterID(ctx context.Context, whose string) (string, error) {
	if whose != "own" {
		return whose, nil
	}
	log, err := journal.Open(ctx, filepath.Join(l.work, "state"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	identity, err := log.Identity(ctx)
	if err == nil && identity.ID == "" {
		err = errors.New("the cluster has no id yet")
	}
	return identity.ID, err
}

// makeFormer makes the cluster look as an earlier version, which knew no id, would have left it.
func makeFormer(ts *testscript.TestScript, _ []string) error {
	ctx, lab := context.Background(), labOf(ts)
	nova, err := lab.nova(ctx)
	if err != nil {
		return err
	}
	for _, s := range lab.cloud.Servers() {
		if err := servers.DeleteMetadatum(ctx, nova, s.ID, "eiffel_cluster_id").ExtractErr(); err != nil {
			return err
		}
	}
	if err := lab.describePorts(ctx, "Slurm cluster eiffel"); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", filepath.Join(lab.work, "state", "journal.db"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "DELETE FROM identity")
	file := filepath.Join(lab.work, "terraform", "openstack", "nodes.auto.tfvars.json")
	text, unread := os.ReadFile(file)
	kept := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, "cluster_id")
	})
	return errors.Join(err, db.Close(), unread, os.WriteFile(file, []byte(strings.Join(kept, "\n")), 0o600))
}

func (l *scriptLab) describePorts(ctx context.Context, description string) error {
	provider, endpoint, err := l.login(ctx)
	if err != nil {
		return err
	}
	neutron, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		return err
	}
	pages, err := ports.List(neutron, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := ports.ExtractPorts(pages)
	for _, p := range all {
		_, failure := ports.Update(ctx, neutron, p.ID, ports.UpdateOpts{Description: &description}).Extract()
		err = errors.Join(err, failure)
	}
	return err
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
	id, err := lab.clusterID(ctx, args[1])
	if err != nil {
		return err
	}
	made, err := servers.Create(ctx, nova, servers.CreateOpts{
		Name: args[0], ImageRef: "11111111-0000-4000-8000-000000000001", FlavorRef: kinds[0].ID,
		Metadata: map[string]string{"eiffel_cluster": "eiffel", "eiffel_cluster_id": id},
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
