package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The metadata of an instance that identifies its cluster. The root module sets it. Earlier versions set only the
// name.
const (
	clusterKey = reconfigure.MetadataPrefix + "cluster"
	idKey      = reconfigure.MetadataPrefix + "cluster_id"
)

// portMark is the description of the cluster's ports, and formerMark that of earlier versions. The root module sets it.
func (c *Client) portMark() string   { return "Slurm cluster id " + c.config.Identity.ID }
func (c *Client) formerMark() string { return "Slurm cluster " + c.config.Cluster }

// ours reports whether metadata is that of an instance of this cluster.
func (c *Client) ours(metadata map[string]string) bool {
	return c.config.Identity.ID != "" && metadata[idKey] == c.config.Identity.ID
}

// listed reports whether an instance is listed as the cluster's. For instances of earlier versions, which have no id
// yet, the name suffices. It does not suffice for a removal.
func (c *Client) listed(metadata map[string]string) bool {
	former := metadata[idKey] == "" && metadata[clusterKey] == c.config.Cluster && !c.config.Identity.Marked
	return c.ours(metadata) || former
}

// Namesakes returns the instances that have the cluster's name and belong to another cluster, by the id of that
// cluster; the id is empty for instances of earlier versions.
func (c *Client) Namesakes(ctx context.Context) (map[string][]reconfigure.Server, error) {
	all, err := c.allServers(ctx, servers.ListOpts{})
	if err != nil {
		return nil, err
	}
	others := map[string][]reconfigure.Server{}
	for _, s := range all {
		if s.Metadata[clusterKey] == c.config.Cluster && !c.ours(s.Metadata) {
			others[s.Metadata[idKey]] = append(others[s.Metadata[idKey]], view(s))
		}
	}
	for _, some := range others {
		slices.SortFunc(some, func(a, b reconfigure.Server) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
		})
	}
	return others, nil
}

// Mark sets the cluster's id on the given instances and ports that an earlier version made. The caller knows that
// they belong to the cluster. Mark does not change others, nor those with the id of another cluster. It returns the
// remaining instances that have the cluster's name and no id.
func (c *Client) Mark(ctx context.Context, serverIDs, portIDs []string) (rest []reconfigure.Server, err error) {
	namesakes, err := c.Namesakes(ctx)
	if err != nil {
		return nil, err
	}
	var unmarked []string
	for _, s := range namesakes[""] {
		if slices.Contains(serverIDs, s.ID) {
			unmarked = append(unmarked, s.ID)
		} else {
			rest = append(rest, s)
		}
	}
	err = each(ctx, unmarked, func(ctx context.Context, id string) error {
		mark := servers.MetadataOpts{idKey: c.config.Identity.ID}
		_, err := servers.UpdateMetadata(ctx, c.compute, id, mark).Extract()
		return c.present("mark server "+id+" of", err)
	})
	if err != nil {
		return nil, err
	}
	former, err := c.portsOf(ctx, c.formerMark())
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, p := range former {
		if slices.Contains(portIDs, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return rest, each(ctx, ids, func(ctx context.Context, id string) error {
		mark := c.portMark()
		_, err := ports.Update(ctx, c.network, id, ports.UpdateOpts{Description: &mark}).Extract()
		return c.present("mark port "+id+" of", err)
	})
}

// present returns the error of a call for something that may have been removed meanwhile.
func (c *Client) present(what string, err error) error {
	if err == nil || gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil
	}
	return c.failed(what, err)
}

// each calls do for all ids.
func each(ctx context.Context, ids []string, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, id := range ids {
		group.Go(func() error { return do(ctx, id) })
	}
	return group.Wait()
}

// portsOf returns the project's ports with a description.
func (c *Client) portsOf(ctx context.Context, description string) ([]ports.Port, error) {
	return c.allPorts(ctx, ports.ListOpts{Description: description}, "list the ports of",
		func(p ports.Port) bool { return p.Description == description })
}

// allPorts returns the ports that a filter selects. A cloud that ignores the filter returns all ports, so matches must
// accept them too.
func (c *Client) allPorts(
	ctx context.Context, filter ports.ListOpts, what string, matches func(ports.Port) bool,
) ([]ports.Port, error) {
	pages, err := ports.List(c.network, filter).AllPages(ctx)
	if err != nil {
		return nil, c.failed(what, err)
	}
	all, err := ports.ExtractPorts(pages)
	if err != nil {
		return nil, c.failed(what, err)
	}
	return slices.DeleteFunc(all, func(p ports.Port) bool { return !matches(p) }), nil
}

// notOurs returns the reason not to remove something that does not belong to the cluster.
func (c *Client) notOurs(what string) error {
	return fmt.Errorf("%s is not removed: it does not have the id of cluster %q", what, c.config.Cluster)
}
