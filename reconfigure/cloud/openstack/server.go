package openstack

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// server has the fields of a server that are read (Compute API, "List Servers Detailed"). gophercloud's type reads all
// fields, and each server twice, which takes most of the time with thousands of servers.
type server struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Status    string            `json:"status"`
	Created   time.Time         `json:"created"`
	Host      string            `json:"OS-EXT-SRV-ATTR:host"` // for administrators alone
	HostID    string            `json:"hostId"`
	Zone      string            `json:"OS-EXT-AZ:availability_zone"`
	Image     reference         `json:"image"`
	Flavor    reference         `json:"flavor"`
	Metadata  map[string]string `json:"metadata"`
	Addresses map[string][]port `json:"addresses"` // by network
	Fault     struct {
		Message string `json:"message"`
	} `json:"fault"`
}

// port is an address of a server's port.
type port struct {
	Address string `json:"addr"`
	Version int    `json:"version"`
	Kind    string `json:"OS-EXT-IPS:type"`
}

// reference is an image or a flavor of a server. The image of a server that boots from a volume is "".
type reference struct{ ID string }

// UnmarshalJSONFrom reads the id of an object, and skips other values.
func (r *reference) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '{' {
		return from.SkipValue()
	}
	var object struct {
		ID string `json:"id"`
	}
	err := json.UnmarshalDecode(from, &object)
	r.ID = object.ID
	return err
}

// allServers returns servers of the whole project: Nova cannot filter by metadata. gophercloud's pager would decode and
// encode each page several times.
func (c *Client) allServers(ctx context.Context, which servers.ListOpts) ([]server, error) {
	list := *c.compute
	list.Microversion = listMicroversion
	query, err := which.ToServerListQuery()
	next := list.ServiceURL("servers", "detail") + query
	var all []server
	for err == nil && next != "" {
		var page struct {
			Servers []server           `json:"servers"`
			Links   []gophercloud.Link `json:"servers_links"`
		}
		if err = c.read(ctx, &list, next, &page); err == nil {
			all = append(all, page.Servers...)
			next, err = gophercloud.ExtractNextURL(page.Links)
		}
	}
	if err != nil {
		return nil, c.failed("list the servers of", err)
	}
	return all, nil
}

// server returns a server by its id.
func (c *Client) server(ctx context.Context, nova *gophercloud.ServiceClient, id string) (server, error) {
	var answer struct {
		Server server `json:"server"`
	}
	err := c.read(ctx, nova, nova.ServiceURL("servers", id), &answer)
	return answer.Server, err
}

// read reads an answer in JSON into a value. As gophercloud does, it repeats the call if the answer ends early.
func (c *Client) read(ctx context.Context, from *gophercloud.ServiceClient, url string, into any) error {
	for failures := uint(1); ; failures++ {
		answer, err := from.Get(ctx, url, nil, &gophercloud.RequestOpts{KeepResponseBody: true})
		if err != nil {
			return err
		}
		err = decode(answer, into)
		if err == nil {
			return nil
		}
		if err := c.retry(ctx, http.MethodGet, url, nil, err, failures); err != nil {
			return err
		}
	}
}

// decode accepts what encoding/json accepts.
func decode(answer *http.Response, into any) error {
	defer answer.Body.Close() //nolint:errcheck // it was read
	return json.UnmarshalRead(answer.Body, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// fault returns Nova's fault of a server with its class; zero if there is none.
func fault(s server) reconfigure.Fault {
	words := strings.TrimSpace(s.Fault.Message)
	if words == "" {
		return reconfigure.Fault{}
	}
	return reconfigure.Fault{Words: words, Class: faultClass(words)}
}

// view translates a server. Nova names its host to its administrators only, and to others an id of the host that is
// different in each project (Compute API, hostId). The statuses of reconfigure.Server are Nova's.
func view(s server) reconfigure.Server {
	return reconfigure.Server{
		ID: s.ID, Node: s.Name, Status: reconfigure.ServerStatus(s.Status), Fault: fault(s), Address: address(s.Addresses),
		ImageID: s.Image.ID, FlavorID: s.Flavor.ID, Zone: s.Zone, Group: s.Metadata[groupKey], Created: s.Created,
		Host: cmp.Or(s.Host, s.HostID), Metadata: foreign(s.Metadata), Adopted: s.Metadata[portKey] != "",
		Aside: s.Metadata[asideKey] != "",
	}
}

// foreign returns the metadata without that of reconfigure. Most instances have no other, and lists of thousands are
// read often, so it copies only what it returns.
func foreign(metadata map[string]string) reconfigure.Texts {
	var others map[string]string
	for name, value := range metadata {
		if strings.HasPrefix(name, reconfigure.MetadataPrefix) {
			continue
		}
		if others == nil {
			others = map[string]string{}
		}
		others[name] = value
	}
	return reconfigure.MakeTexts(others)
}

// address returns the first fixed IPv4 address of the first network that has one; empty if there is none.
func address(networks map[string][]port) string {
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		for _, p := range networks[name] {
			if p.Version == 4 && p.Kind == "fixed" {
				return p.Address
			}
		}
	}
	return ""
}
