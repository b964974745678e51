package openstack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Ports returns the ports of the cluster, by node, without unmarked ports of earlier versions.
func (c *Client) Ports(ctx context.Context) (map[string][]reconfigure.Port, error) {
	ours := map[string][]reconfigure.Port{}
	if c.config.Identity.ID == "" {
		return ours, nil
	}
	all, err := c.portsOf(ctx, c.portMark())
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		ours[p.Name] = append(ours[p.Name], viewPort(p))
	}
	return ours, nil
}

func viewPort(p ports.Port) reconfigure.Port {
	return reconfigure.Port{
		ID: p.ID, Node: p.Name, Server: p.DeviceID, Network: p.NetworkID,
		SecurityGroups: reconfigure.MakeList(p.SecurityGroups), Created: p.CreatedAt,
	}
}

// RemovePort removes a port that Terraform does not know; the caller MUST make sure of that. RemovePort first reads
// the port again: the port must have the cluster's id and the name, no server may use it, and it must have been
// created before the time; else it is not removed, and the error says why. A missing port is success, so the call may
// be retried.
func (c *Client) RemovePort(ctx context.Context, id, name string, before time.Time) error {
	p, err := ports.Get(ctx, c.network, id).Extract()
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return nil
	case err != nil:
		return c.failed("look at port "+id+" of", err)
	case c.config.Identity.ID == "" || p.Description != c.portMark():
		return c.notOurs("port " + id)
	case p.Name != name:
		return fmt.Errorf("port %s is not removed: its name is %q, not %q", id, p.Name, name)
	case p.DeviceID != "":
		return fmt.Errorf("port %s is not removed: server %s uses it", id, p.DeviceID)
	case p.CreatedAt.IsZero() || !p.CreatedAt.Before(before):
		created := p.CreatedAt.Format(time.RFC3339)
		return fmt.Errorf("port %s is not removed: it was created at %s, which is too recent", id, created)
	}
	return c.present("remove port "+id+" from", ports.Delete(ctx, c.network, id).ExtractErr())
}
