package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// portKey is the metadata of an adopted instance that has the former name and description of its port: see portNames.
const portKey = reconfigure.MetadataPrefix + "port"

// longestMetadata is the most bytes of a value of metadata (Compute API, "Update Server Metadata").
const longestMetadata = 255

// portNames is what Claim changes of a port.
type portNames struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Candidates returns the project's servers with the names of these nodes, of any cluster or of none, with their ports.
func (c *Client) Candidates(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Candidate, error) {
	all, err := c.named(ctx, nodes)
	if err != nil {
		return nil, err
	}
	found, seen := map[string][]reconfigure.Candidate{}, map[string]bool{}
	for _, s := range all {
		if !nodes.Contains(s.Name) || seen[s.ID] {
			continue
		}
		seen[s.ID] = true
		of, err := c.portsOfServer(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		candidate := reconfigure.Candidate{Server: view(s), Cluster: cmp.Or(s.Metadata[idKey], s.Metadata[clusterKey])}
		for _, p := range of {
			candidate.Ports = append(candidate.Ports, viewPort(p))
		}
		found[s.Name] = append(found[s.Name], candidate)
	}
	return found, nil
}

func (c *Client) portsOfServer(ctx context.Context, id string) ([]ports.Port, error) {
	return c.allPorts(ctx, ports.ListOpts{DeviceID: id}, "list the ports of server "+id+" of",
		func(p ports.Port) bool { return p.DeviceID == id })
}

// Claim marks a server that belongs to no cluster, and its only port, as the instance of a node of this cluster. The
// metadata of the server then has what Disclaim needs. It may be repeated.
func (c *Client) Claim(ctx context.Context, id, node, group string) error {
	s, err := c.server(ctx, c.compute, id)
	if err != nil {
		return c.failed("look at server "+id+" of", err)
	}
	of, err := c.portsOfServer(ctx, id)
	switch {
	case err != nil:
		return err
	case len(of) != 1:
		return fmt.Errorf("server %s has %d ports", id, len(of))
	case s.Metadata[clusterKey] != "" && !c.ours(s.Metadata):
		return fmt.Errorf("server %s belongs to cluster %q", id, s.Metadata[clusterKey])
	}
	port := of[0]
	mark := servers.MetadataOpts{idKey: c.config.Identity.ID, clusterKey: c.config.Cluster, groupKey: group}
	if s.Metadata[portKey] == "" {
		was, err := json.Marshal(portNames{port.Name, port.Description})
		if err != nil {
			return err
		}
		if len(was) > longestMetadata {
			return fmt.Errorf("the name and the description of port %s have more than the %d bytes that the metadata of a "+
				"server can keep: shorten them", port.ID, longestMetadata)
		}
		mark[portKey] = string(was)
	}
	if _, err := servers.UpdateMetadata(ctx, c.compute, id, mark).Extract(); err != nil {
		return c.failed("mark server "+id+" of", err)
	}
	return c.rename(ctx, port.ID, portNames{node, c.portMark()})
}

// Disclaim ends what Claim did: server and port are as before. A server that is gone, or not the cluster's, is success,
// so it may be repeated.
func (c *Client) Disclaim(ctx context.Context, id string) error {
	s, err := c.server(ctx, c.compute, id)
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return nil
	case err != nil:
		return c.failed("look at server "+id+" of", err)
	case !c.ours(s.Metadata):
		return nil
	}
	of, err := c.portsOfServer(ctx, id)
	if err != nil {
		return err
	}
	var was portNames // of an instance that was not adopted: none
	if said := s.Metadata[portKey]; said != "" {
		if err := json.Unmarshal([]byte(said), &was); err != nil {
			return fmt.Errorf("server %s: metadata %s: %w", id, portKey, err)
		}
	}
	for _, p := range of {
		if p.Description != c.portMark() {
			continue
		}
		if err := c.rename(ctx, p.ID, was); err != nil {
			return err
		}
	}
	for _, key := range []string{portKey, groupKey, clusterKey, idKey} { // the id last: it says that the server is ours
		err := servers.DeleteMetadatum(ctx, c.compute, id, key).ExtractErr()
		if err := c.present("unmark server "+id+" of", err); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) rename(ctx context.Context, port string, to portNames) error {
	_, err := ports.Update(ctx, c.network, port, ports.UpdateOpts{Name: &to.Name, Description: &to.Description}).Extract()
	if err != nil {
		return c.failed("rename port "+port+" of", err)
	}
	return nil
}
