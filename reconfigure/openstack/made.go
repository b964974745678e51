package openstack

import "context"

// Made is the ids of all servers of the cluster, by name, the oldest first, whatever became of them and whoever knows of them.
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
