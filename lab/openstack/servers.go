package openstack

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// servers returns all of Nova's servers, oldest first.
func (c *Cloud) servers(ctx context.Context) ([]labcloud.Server, error) {
	client, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Servers []struct {
			ID, Name, Status string
			Task             string `json:"OS-EXT-STS:task_state"`
			Flavor           struct {
				Name string `json:"original_name"`
			}
			Zone      string `json:"OS-EXT-AZ:availability_zone"`
			Image     any    // "" for a server booted from a volume
			Addresses map[string][]struct{ Addr netip.Addr }
			Created   time.Time
			Fault     struct{ Message string }
		}
	}
	if _, err := client.Get(ctx, client.ServiceURL("servers", "detail"), &answer, nil); err != nil {
		return nil, err
	}
	var list []labcloud.Server
	for _, s := range answer.Servers {
		server := labcloud.Server{ID: s.ID, Name: s.Name, Status: s.Status, Task: s.Task, Flavor: s.Flavor.Name,
			Zone: s.Zone, Created: s.Created, Fault: s.Fault.Message}
		if image, ok := s.Image.(map[string]any); ok {
			server.Image, _ = image["id"].(string)
		}
		for _, network := range s.Addresses {
			for _, a := range network {
				server.Addresses = append(server.Addresses, a.Addr)
			}
		}
		list = append(list, server)
	}
	slices.SortStableFunc(list, func(a, b labcloud.Server) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}
