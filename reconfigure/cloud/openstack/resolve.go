package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Resolve returns the current ids of the names of a source, or all errors in them. An existing id is its own result.
// Resolve caches nothing, since a new image may get the name. Whether Glance and Neutron distinguish upper and lower
// case depends on their databases; Resolve does.
func (c *Client) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	var (
		resolved reconfigure.Resolved
		wrong    []string
		class    = reconfigure.ClassMissing
	)
	note := func(kind, name string, err error) {
		if err == nil {
			return
		}
		wrong = append(wrong, fmt.Sprintf("%s %q in cloud %q: %v", kind, name, c.config.Cloud, plain(err)))
		if !missing(err) {
			class = classOf(err)
		}
	}
	for _, part := range []struct {
		kind, name string
		find       func(context.Context, string) ([]string, error)
		to         *string
	}{
		{"image", s.Image, c.findImage, &resolved.ImageID},
		{"flavor", s.Flavor, c.findFlavor, &resolved.FlavorID},
		{"network", s.Network, c.findNetwork, &resolved.NetworkID},
	} {
		id, err := one(part.find(ctx, part.name))
		note(part.kind, part.name, err)
		*part.to = id
	}
	resolved.Placement = s.Placement
	if s.Zone != "" {
		note("availability zone", s.Zone, c.findZone(ctx, s.Zone))
	}
	if s.ServerGroup != "" {
		id, err := one(c.findServerGroup(ctx, s.ServerGroup))
		note("server group", s.ServerGroup, err)
		resolved.ServerGroup = id
	}
	if len(wrong) > 0 {
		return reconfigure.Resolved{Err: strings.Join(wrong, "; "), Class: class}
	}
	return resolved
}

// missing reports whether the cloud answered that it has no match. After any other error that is unknown.
func missing(err error) bool { return reconfigure.ClassOf(err) == reconfigure.ClassMissing }

func one(ids []string, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", reconfigure.Classify(reconfigure.ClassMissing, errors.New("not found"))
	case len(ids) > 1:
		slices.Sort(ids)
		problem := fmt.Errorf("the name is ambiguous, use one of the ids %s", strings.Join(ids, ", "))
		return "", reconfigure.Classify(reconfigure.ClassMissing, problem)
	}
	return ids[0], nil
}

// findImage considers only bootable images: a failed upload leaves an image with the same name.
func (c *Client) findImage(ctx context.Context, name string) ([]string, error) {
	var found []images.Image
	if isID(name) {
		image, err := images.Get(ctx, c.images, name).Extract()
		if err == nil {
			found = append(found, *image)
		} else if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return nil, err
		}
	}
	if len(found) == 0 {
		pages, err := images.List(c.images, images.ListOpts{Name: name}).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		if found, err = images.ExtractImages(pages); err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(i images.Image) bool { return i.Name != name })
	}
	var ids, unfit []string
	for _, image := range found {
		if image.Status == images.ImageStatusActive {
			ids = append(ids, image.ID)
		} else {
			unfit = append(unfit, fmt.Sprintf("%s is %s", image.ID, image.Status))
		}
	}
	if len(ids) == 0 && len(unfit) > 0 {
		return nil, reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf("not active: %s", strings.Join(unfit, ", ")))
	}
	return ids, nil
}

// findFlavor searches all flavors: Nova has no search by name, and a flavor's id may be any text.
func (c *Client) findFlavor(ctx context.Context, name string) ([]string, error) {
	all, err := c.flavors(ctx)
	if err != nil {
		return nil, err
	}
	return byIDOrName(all, name, func(f flavors.Flavor) (id, called string) { return f.ID, f.Name }), nil
}

// byIDOrName returns the id if something has it, else the ids of all that have the name.
func byIDOrName[T any](all []T, name string, of func(T) (id, called string)) (ids []string) {
	for _, one := range all {
		id, called := of(one)
		if id == name {
			return []string{name}
		}
		if called == name {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *Client) findNetwork(ctx context.Context, name string) ([]string, error) {
	if isID(name) {
		_, err := networks.Get(ctx, c.network, name).Extract()
		if err == nil {
			return []string{name}, nil
		}
		if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return nil, err
		}
	}
	pages, err := networks.List(c.network, networks.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, err
	}
	return byIDOrName(all, name, func(n networks.Network) (id, called string) { return n.ID, n.Name }), nil
}

// findZone returns an error if Nova has no such availability zone, or if no host in it can run instances.
func (c *Client) findZone(ctx context.Context, name string) error {
	pages, err := availabilityzones.List(c.compute).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := availabilityzones.ExtractAvailabilityZones(pages)
	if err != nil {
		return err
	}
	var names []string
	for _, zone := range all {
		if zone.ZoneName == name && zone.ZoneState.Available {
			return nil
		}
		if zone.ZoneState.Available {
			names = append(names, zone.ZoneName)
		}
	}
	slices.Sort(names)
	return reconfigure.Classify(reconfigure.ClassMissing,
		fmt.Errorf("not found; the cloud has %s", cmp.Or(strings.Join(names, ", "), "none")))
}

// findServerGroup searches the server groups of the project: Nova has no search by name.
func (c *Client) findServerGroup(ctx context.Context, name string) ([]string, error) {
	pages, err := servergroups.List(c.compute, servergroups.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := servergroups.ExtractServerGroups(pages)
	if err != nil {
		return nil, err
	}
	return byIDOrName(all, name, func(g servergroups.ServerGroup) (id, called string) { return g.ID, g.Name }), nil
}

func isID(name string) bool { return uuid.Validate(name) == nil }
