package openstack

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// asideKey is the metadata of a server that was set aside.
const asideKey = reconfigure.MetadataPrefix + "aside"

// SetAside stops a server, detaches its ports, which stay, and marks it, so that another server can be made for its
// node while this one still uses its host. Nova detaches no port of a server that is being stopped, so SetAside waits:
// Nova stops a guest that does not shut down after a minute (nova.conf, shutdown_timeout). It may be repeated. The
// server must have the cluster's id.
func (c *Client) SetAside(ctx context.Context, id string) error {
	s, err := servers.Get(ctx, c.compute, id).Extract()
	switch {
	case err != nil:
		return c.failed("look at server "+id+" of", err)
	case !c.ours(s.Metadata):
		return c.notOurs("server " + id)
	case s.Status != string(reconfigure.ServerStopped):
		err = c.switchOff(ctx, id)
	}
	if err == nil {
		err = c.detachAll(ctx, id)
	}
	if err != nil {
		return err
	}
	mark := servers.MetadataOpts{asideKey: "failed"}
	if _, err := servers.UpdateMetadata(ctx, c.compute, id, mark).Extract(); err != nil {
		return c.failed("mark server "+id+" of", err)
	}
	return nil
}

// switchOff returns when the server is stopped.
func (c *Client) switchOff(ctx context.Context, id string) error {
	if err := servers.Stop(ctx, c.compute, id).ExtractErr(); err != nil {
		return c.failed("stop server "+id+" of", err)
	}
	return c.poll(ctx, func() (bool, error) {
		s, err := servers.Get(ctx, c.compute, id).Extract()
		if err != nil {
			return false, c.failed("look at server "+id+" of", err)
		}
		return s.Status == string(reconfigure.ServerStopped), nil
	})
}

// detachAll returns when Neutron has no port at the server.
func (c *Client) detachAll(ctx context.Context, id string) error {
	of, err := c.portsOfServer(ctx, id)
	if err != nil {
		return err
	}
	for _, p := range of {
		err := attachinterfaces.Delete(ctx, c.compute, id, p.ID).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return c.failed("detach port "+p.ID+" of server "+id+" of", err)
		}
	}
	return c.poll(ctx, func() (bool, error) {
		of, err := c.portsOfServer(ctx, id)
		return len(of) == 0, err
	})
}
