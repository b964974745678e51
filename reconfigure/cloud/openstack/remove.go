package openstack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// RemoveServer removes a server that Terraform does not know, and returns when it is gone; the caller MUST make sure
// that Terraform does not know it. RemoveServer first reads the server again: it must have the cluster's id and the
// name, and have been created before the time; else nothing is removed, and the error says why. A missing server is
// success, so the call may be retried. Ports that Terraform made for a server stay.
func (c *Client) RemoveServer(ctx context.Context, id, name string, before time.Time) error {
	s, err := servers.Get(ctx, c.compute, id).Extract()
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return nil
	case err != nil:
		return c.failed("look at server "+id+" of", err)
	case !c.ours(s.Metadata):
		return c.notOurs("server " + id)
	case s.Name != name:
		return fmt.Errorf("server %s is not removed: its name is %q, not %q", id, s.Name, name)
	case !s.Created.Before(before):
		created := s.Created.Format(time.RFC3339)
		return fmt.Errorf("server %s is not removed: it was created at %s, which is too recent", id, created)
	}
	err = servers.Delete(ctx, c.compute, id).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return c.failed("remove server "+id+" from", err)
	}
	return c.awaitGone(ctx, id)
}

func (c *Client) awaitGone(ctx context.Context, id string) error {
	late := fmt.Errorf("server %s still exists %s after the request to remove it", id, c.tempo.gone)
	ctx, cancel := context.WithTimeoutCause(ctx, c.tempo.gone, late)
	defer cancel()
	return c.poll(ctx, func() (bool, error) {
		_, err := servers.Get(ctx, c.compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return true, nil
		}
		if err != nil {
			err = c.failed("look at server "+id+" of", err)
		}
		return false, err
	})
}
