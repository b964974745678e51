package openstack

import (
	"context"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// ProjectServers returns all servers of the project.
func (c *Client) ProjectServers(ctx context.Context) ([]reconfigure.ProjectServer, error) {
	all, err := c.allServers(ctx, servers.ListOpts{})
	if err != nil {
		return nil, err
	}
	found := make([]reconfigure.ProjectServer, len(all))
	for i, s := range all {
		found[i] = reconfigure.ProjectServer{
			ID: s.ID, Name: s.Name, Cluster: s.Metadata[clusterKey], Ours: c.listed(s.Metadata),
		}
	}
	return found, nil
}

// Clock returns the cloud's time in whole seconds, from the header Date of an answer of its API (RFC 9110). It
// returns the zero time if the answer has no Date: a server without a clock sends none.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	answer := limits.Get(ctx, c.compute, limits.GetOpts{})
	if answer.Err != nil {
		return time.Time{}, c.failed("ask for the time of", answer.Err)
	}
	date := answer.Header.Get("Date")
	if date == "" {
		return time.Time{}, nil
	}
	now, err := http.ParseTime(date)
	if err != nil {
		return time.Time{}, c.failed("ask for the time of", err)
	}
	return now, nil
}
