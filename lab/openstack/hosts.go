package openstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/aggregates"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
)

// FirstHost is the name of the host that each cloud has.
const FirstHost = "compute1"

// startHost starts a nova-compute with its own name. A running one stays.
func (r *runner) startHost(host string) error {
	name := "nova-compute"
	argv := []string{"/usr/bin/python3", "-m", "eiffel_compute", r.config("nova/nova.conf")}
	if host != FirstHost {
		name += "-" + host
		file := filepath.Join("nova", host+".conf")
		text := fmt.Sprintf("[DEFAULT]\nhost = %s\n", host)
		if err := os.WriteFile(filepath.Join(r.Dir, "etc", file), []byte(text), 0o644); err != nil {
			return err
		}
		argv = append(argv, r.config(file))
	}
	if _, ok := r.services[name]; ok {
		return nil
	}
	return r.service(name, argv...)
}

// addHost starts a host while the cloud runs.
func (r *runner) addHost(ctx context.Context, host string) error {
	if err := r.startHost(host); err != nil {
		return err
	}
	return r.awaitHost(ctx, host)
}

// awaitHost waits until the scheduler can place a server on a host.
func (r *runner) awaitHost(ctx context.Context, host string) error {
	placement, err := newClient(ctx, Admin(), openstack.NewPlacementV1)
	if err != nil {
		return err
	}
	placement.Microversion = "1.29"
	compute, err := newCompute(ctx, Admin())
	if err != nil {
		return err
	}
	return r.until(ctx, "host "+host, func() bool {
		var known struct {
			Providers []any `json:"resource_providers"`
		}
		_, err := placement.Get(ctx, placement.ServiceURL("resource_providers?resources=VCPU:1&name="+host), &known, nil)
		if err != nil || len(known.Providers) == 0 {
			return false
		}
		// Nova lists a host after it has found it in its cell.
		var hosts struct {
			Hypervisors []struct {
				Name string `json:"hypervisor_hostname"`
			}
		}
		_, err = compute.Get(ctx, compute.ServiceURL("os-hypervisors"), &hosts, nil)
		for _, h := range hosts.Hypervisors {
			if h.Name == host {
				return err == nil
			}
		}
		return false
	})
}

// AddHost adds a host, or allows new servers on it again, and moves it to an availability zone of its own. Nova moves
// a host without servers only, and a request for its default zone, "nova", gets a host of any zone. The scheduler
// prefers the host with the most free memory. remove forbids new servers on the host.
func (c *Cloud) AddHost(ctx context.Context, host, zone string) (remove func(context.Context) error, err error) {
	if err := c.order("host " + host); err != nil {
		return nil, err
	}
	compute, err := newCompute(ctx, Admin())
	if err != nil {
		return nil, err
	}
	made, err := aggregates.Create(ctx, compute, aggregates.CreateOpts{Name: zone, AvailabilityZone: zone}).Extract()
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusConflict): // it has the host already
	case err != nil:
		return nil, fmt.Errorf("zone %s: %w", zone, err)
	default:
		if err := aggregates.AddHost(ctx, compute, made.ID, aggregates.AddHostOpts{Host: host}).Err; err != nil {
			return nil, fmt.Errorf("zone %s of host %s: %w", zone, host, err)
		}
	}
	pages, err := services.List(compute, services.ListOpts{Binary: "nova-compute", Host: host}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := services.ExtractServices(pages)
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("nova-compute of host %s: %v, %w", host, all, err)
	}
	set := func(ctx context.Context, status services.ServiceStatus) error {
		return services.Update(ctx, compute, all[0].ID, services.UpdateOpts{Status: status}).Err
	}
	return func(ctx context.Context) error { return set(ctx, services.ServiceDisabled) },
		set(ctx, services.ServiceEnabled)
}

// BreakHost makes the machines that boot on a host from now on have a full file system for Slurm's configuration. It
// returns a function that ends this and returns the names of these machines.
func (c *Cloud) BreakHost(host string) (over func() []string) {
	m := c.machines
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken[host] = nil
	return func() []string {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer delete(m.broken, host)
		return slices.Clone(m.broken[host])
	}
}
