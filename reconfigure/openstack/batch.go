package openstack

import (
	"context"
	"strings"
	"time"
)

// What the engine asks for in its own form.

// Active is the servers of the cluster that run, by id.
func (c *Client) Active(ctx context.Context) (map[string]bool, error) {
	all, err := c.Servers(ctx)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, same := range all {
		for _, s := range same {
			if s.Active() {
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
			if s.Fault == "" && s.Status == inError {
				if s.Fault, err = c.Fault(ctx, s.ID); err != nil {
					return nil, err
				}
			}
			if s.Fault != "" {
				faults[name] = strings.TrimSpace(s.Fault)
			}
		}
	}
	return faults, nil
}

// Made is the ids of all servers of the cluster, by name, the oldest first.
func (c *Client) Made(ctx context.Context) (map[string][]string, error) {
	all, err := c.Servers(ctx)
	if err != nil {
		return nil, err
	}
	made := make(map[string][]string, len(all))
	for name, same := range all {
		for _, s := range same {
			made[name] = append(made[name], s.ID)
		}
	}
	return made, nil
}

// RemoveOrphan is RemoveServer.
func (c *Client) RemoveOrphan(ctx context.Context, id, name string, before time.Time) error {
	return c.RemoveServer(ctx, id, name, before)
}
