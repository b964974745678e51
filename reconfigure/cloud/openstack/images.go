package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The properties of an image that this tool has made, in addition to clusterKey and idKey. Nova copies the properties
// of an instance's image to its snapshots, so a snapshot that a user makes by hand has them too, with another name.
const (
	nodeKey    = reconfigure.MetadataPrefix + "node"
	requestKey = reconfigure.MetadataPrefix + "request"
)

// Images returns all images that the project sees, in any status.
func (c *Client) Images(ctx context.Context) ([]reconfigure.Image, error) {
	return c.listImages(ctx, images.ListOpts{})
}

func (c *Client) listImages(ctx context.Context, which images.ListOpts) ([]reconfigure.Image, error) {
	pages, err := images.List(c.images, which).AllPages(ctx)
	if err != nil {
		return nil, c.failed("list the images of", err)
	}
	found, err := images.ExtractImages(pages)
	if err != nil {
		return nil, c.failed("list the images of", err)
	}
	all := make([]reconfigure.Image, len(found))
	for i := range found {
		all[i] = c.imageView(found[i])
	}
	return all, nil
}

func (c *Client) imageView(i images.Image) reconfigure.Image {
	view := reconfigure.Image{
		ID: i.ID, Name: i.Name, Status: string(i.Status), Size: i.SizeBytes, Created: i.CreatedAt,
	}
	said := map[string]string{}
	for _, key := range []string{idKey, nodeKey, requestKey} {
		said[key], _ = i.Properties[key].(string)
	}
	if c.ours(said) {
		view.Node = said[nodeKey]
		request, _ := strconv.ParseInt(said[requestKey], 10, 64) // zero: it was not made for a request
		view.Request = reconfigure.RequestID(request)
	}
	return view
}

// Image returns the image that was begun for a request; false if there is none. If another image has the name, Image
// returns an error: a declaration with that name would be ambiguous.
func (c *Client) Image(
	ctx context.Context, name string, request reconfigure.RequestID,
) (reconfigure.Image, bool, error) {
	same, err := c.listImages(ctx, images.ListOpts{Name: name})
	if err != nil {
		return reconfigure.Image{}, false, err
	}
	same = slices.DeleteFunc(same, func(i reconfigure.Image) bool { return i.Name != name }) // Glance may ignore case
	for _, i := range same {
		if i.Request == request {
			return i, true, nil
		}
	}
	if len(same) > 0 {
		return reconfigure.Image{}, false, fmt.Errorf(
			"there is already an image named %q, %s: use another name, or delete that image", name, same[0].ID)
	}
	return reconfigure.Image{}, false, nil
}

// CreateImage makes Nova begin an image of an instance's disk, unless one with this name and request exists. If the
// answer was lost or Nova has already begun, it checks again. Other errors are the cloud's, with a class.
func (c *Client) CreateImage(
	ctx context.Context, of reconfigure.Instance, name string, request reconfigure.RequestID,
) (reconfigure.Image, error) {
	if image, found, err := c.Image(ctx, name, request); found || err != nil {
		return image, err
	}
	id, err := servers.CreateImage(ctx, c.compute, of.ID, servers.CreateImageOpts{
		Name: name, Metadata: map[string]string{
			clusterKey: c.config.Cluster, idKey: c.config.Identity.ID, nodeKey: of.Node, requestKey: request.String(),
		},
	}).ExtractImageID()
	if err == nil {
		var image *images.Image
		if image, err = images.Get(ctx, c.images, id).Extract(); err == nil {
			return c.imageView(*image), nil
		}
	}
	if image, found, _ := c.Image(ctx, name, request); found {
		return image, nil
	}
	return reconfigure.Image{}, c.failed("make an image of server "+of.ID+" of", err)
}

// AwaitImage returns when an image is active and Nova has finished its work on the instance; before that, Nova refuses
// to rebuild the instance. It fails at once if the image can no longer become active. Nova removes an image that it
// could not save.
func (c *Client) AwaitImage(
	ctx context.Context, image reconfigure.Image, of reconfigure.Instance,
) (reconfigure.Image, error) {
	err := c.poll(ctx, func() (bool, error) {
		is, err := images.Get(ctx, c.images, image.ID).Extract()
		switch {
		case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			return false, errors.New("the cloud removed it while saving it; " +
				"a quota of the image service or a full store are usual causes")
		case err != nil:
			return false, c.failed("look at it in", err)
		}
		image = c.imageView(*is)
		switch is.Status {
		case images.ImageStatusQueued, images.ImageStatusSaving, images.ImageStatusImporting:
			return false, nil
		case images.ImageStatusActive:
			return c.idle(ctx, of.ID)
		}
		return false, fmt.Errorf("it is %s", is.Status)
	})
	if err != nil {
		return image, fmt.Errorf("image %s, %s: %w", image.Name, image.ID, err)
	}
	return image, nil
}

// idle reports whether Nova has no task for a server, or the server is gone.
func (c *Client) idle(ctx context.Context, id string) (bool, error) {
	s, err := servers.Get(ctx, c.compute, id).Extract()
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return true, nil
	case err != nil:
		return false, c.failed("look at server "+id+" of", err)
	}
	return s.TaskState == "", nil
}

// RemoveShelvedImage removes the image that Nova began to make of a server to shelve it. Nova itself removes the
// image with a shelved server, but not with a server that is deleted during the upload of the image. The image has
// the server's name and id (Nova, compute.api.API.shelve and compute_utils.create_image).
func (c *Client) RemoveShelvedImage(ctx context.Context, of reconfigure.Instance) (name string, err error) {
	name = of.Node + "-shelved"
	pages, err := images.List(c.images, images.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return "", c.failed("list the images of", err)
	}
	found, err := images.ExtractImages(pages)
	if err != nil {
		return "", c.failed("list the images of", err)
	}
	removed := ""
	for _, i := range found {
		if server, _ := i.Properties["instance_uuid"].(string); i.Name != name || server != of.ID {
			continue
		}
		err := images.Delete(ctx, c.images, i.ID).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return "", c.failed("remove image "+i.ID+" from", err)
		}
		removed = name
	}
	return removed, nil
}
