package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Server is an instance as Nova has it.
type Server struct {
	ID      string
	Name    string
	Status  string // ACTIVE, BUILD, ERROR, …: Nova's server status
	Fault   string // what went wrong, where the status is ERROR
	Address string // first fixed IPv4 address; empty while there is none
	ImageID string // empty where it boots from a volume
	Created time.Time
}

// clusterKey is the metadata that marks an instance as ours; Terraform sets it.
const clusterKey = "eiffel_cluster"

// Servers is the instances of the cluster, by name. A cloud allows several of one name, so each name has a list, the oldest first.
func (c *Client) Servers(ctx context.Context) (map[string][]Server, error) {
	// Nova cannot filter by metadata: we look through all of the project's.
	pages, err := servers.List(c.compute, servers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, c.failed("list the servers of", err)
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, c.failed("list the servers of", err)
	}
	ours := map[string][]Server{}
	for _, s := range all {
		if s.Metadata[clusterKey] == c.config.Cluster {
			ours[s.Name] = append(ours[s.Name], view(s))
		}
	}
	for _, same := range ours {
		slices.SortFunc(same, func(a, b Server) int { return a.Created.Compare(b.Created) })
	}
	return ours, nil
}

// Active tells which instances of the cluster run, by id.
func (c *Client) Active(ctx context.Context) (map[string]bool, error) {
	all, err := c.Servers(ctx)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, same := range all {
		for _, s := range same {
			if s.Status == "ACTIVE" {
				active[s.ID] = true
			}
		}
	}
	return active, nil
}

// Faults is what Nova says went wrong with the cluster's servers that are in ERROR, by name.
func (c *Client) Faults(ctx context.Context) (map[string]string, error) {
	all, err := c.Servers(ctx)
	if err != nil {
		return nil, err
	}
	faults := map[string]string{}
	for name, same := range all {
		for _, s := range same {
			if s.Fault != "" {
				faults[name] = strings.TrimSpace(s.Fault)
			}
		}
	}
	return faults, nil
}

func view(s servers.Server) Server {
	image, _ := s.Image["id"].(string)
	return Server{ID: s.ID, Name: s.Name, Status: s.Status, Fault: s.Fault.Message, Address: address(s.Addresses), ImageID: image, Created: s.Created}
}

// address reads what gophercloud leaves as plain JSON: by network, the addresses of the ports there.
func address(networks map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		ports, _ := networks[name].([]any)
		for _, port := range ports {
			p, _ := port.(map[string]any)
			addr, _ := p["addr"].(string)
			if fmt.Sprint(p["version"]) == "4" && p["OS-EXT-IPS:type"] == "fixed" {
				return addr
			}
		}
	}
	return ""
}

// Reboot restarts a server and returns when it is ACTIVE again. Where a soft reboot is refused (Nova takes it of a running server only) or does not end, it
// is a hard one. It may be repeated; whether a job is on the server is the caller's care.
func (c *Client) Reboot(ctx context.Context, id string) error {
	var (
		errs  []error
		class reconfigure.Class // of the last
	)
	for _, how := range []servers.RebootMethod{servers.SoftReboot, servers.HardReboot} {
		err := servers.Reboot(ctx, c.compute, id, servers.RebootOpts{Type: how}).ExtractErr()
		if err == nil {
			err = c.awaitActive(ctx, id)
		}
		if err == nil {
			return nil
		}
		if class = reconfigure.ClassOf(err); class == reconfigure.ClassOther {
			class = classOf(err)
		}
		errs = append(errs, fmt.Errorf("%s reboot of server %s: %w", how, id, err))
		if ctx.Err() != nil || gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			break
		}
	}
	return reconfigure.Classify(class, errors.Join(errs...))
}

func (c *Client) awaitActive(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.tempo.rebooted, reconfigure.Classify(reconfigure.ClassBoot, fmt.Errorf("not ACTIVE after %s", c.tempo.rebooted)))
	defer cancel()
	for {
		s, err := servers.Get(ctx, c.compute, id).Extract()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case s.Status == "ACTIVE" && s.TaskState == "":
			return nil
		case s.Status == "ERROR":
			return reconfigure.Classify(reconfigure.FaultClass(s.Fault.Message), fmt.Errorf("it is in ERROR: %s", s.Fault.Message))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.tempo.poll):
		}
	}
}

// Console is the end of a server's console log; all that Nova has of it where lines is zero. A server that has just been made may have none yet, which Nova calls
// not found or a conflict.
func (c *Client) Console(ctx context.Context, id string, lines int) (string, error) {
	text, err := servers.ShowConsoleOutput(ctx, c.compute, id, servers.ShowConsoleOutputOpts{Length: lines}).Extract()
	if err != nil {
		return "", fmt.Errorf("console of server %s: %w", id, err)
	}
	return text, nil
}
