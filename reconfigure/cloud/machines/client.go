package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/singleflight"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

var (
	errNoPorts  = errors.New("machines have no ports")
	errNoImages = errors.New("reconfigure makes no images of machines")
)

// Client reads the status of machines and switches them. It is safe for concurrent use.
type Client struct {
	cloud.NoPorts
	cloud.NoMarks
	cloud.NoImages

	access   reconfigure.Access
	table    Table
	poll     time.Duration // between two polls of a machine that is being switched
	commands chan struct{} // a place for each running command

	lock  sync.Mutex
	found map[string]found   // by node: caches DNS answers
	asked singleflight.Group // by node: commands for a status that have not ended
}

// found is the address that DNS gave for a name.
type found struct {
	address string
	at      time.Time
}

// Open reads the table of an access. It runs no command.
func Open(_ context.Context, access reconfigure.Access) (*Client, error) {
	table, err := readTable(access.Dir, access.Cloud)
	if err != nil {
		return nil, err
	}
	return &Client{
		NoPorts: cloud.NoPorts{Reason: errNoPorts}, NoImages: cloud.NoImages{Reason: errNoImages},
		access: access, table: table, poll: time.Second, commands: make(chan struct{}, table.Parallelism),
		found: map[string]found{},
	}, nil
}

// nodes reads the map of nodes.
func (c *Client) nodes(ctx context.Context) (map[string]reconfigure.Spec, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c.access.Means.Nodes(ctx)
}

// address returns a node's address: that of the table, else the one of its name in DNS. It is empty if the name is
// not found. An answer is cached for some minutes, and longer if DNS does not answer.
func (c *Client) address(ctx context.Context, node string) string {
	if address, given := c.table.Addresses[node]; given {
		return address.String()
	}
	const counts = 5 * time.Minute
	c.lock.Lock()
	known := c.found[node]
	c.lock.Unlock()
	if known.address != "" && time.Since(known.at) < counts {
		return known.address
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", node)
	if err != nil || len(addresses) == 0 {
		return known.address
	}
	known = found{addresses[0].Unmap().String(), time.Now()}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.found[node] = known
	return known.address
}

// Resolve returns the ids of a source: its names. Only the flavor is a choice.
func (c *Client) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	_, known := c.table.Flavors[s.Flavor]
	switch err := source("the node", s); {
	case ctx.Err() != nil:
		return reconfigure.Resolved{Err: context.Cause(ctx).Error(), Class: reconfigure.ClassCloud}
	case err != nil:
		return reconfigure.Resolved{Err: err.Error(), Class: reconfigure.ClassMissing}
	case !known:
		return reconfigure.Resolved{
			Err: fmt.Sprintf("flavor %q: not found in %s", s.Flavor, File), Class: reconfigure.ClassMissing,
		}
	}
	return reconfigure.Resolved{ImageID: existing, FlavorID: s.Flavor, NetworkID: existing}
}

// Servers returns the machines in service, each with its current status. If its command fails, the status is UNKNOWN
// and the fault has the reason.
func (c *Client) Servers(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	desired, err := c.nodes(ctx)
	if err != nil {
		return nil, err
	}
	servers := map[string][]reconfigure.Server{}
	var lock sync.Mutex
	var wait sync.WaitGroup
	for node, spec := range desired {
		if !spec.HasInstance() || !nodes.Empty() && !nodes.Contains(node) {
			continue
		}
		wait.Go(func() {
			server := c.server(ctx, node, spec)
			lock.Lock()
			defer lock.Unlock()
			servers[node] = []reconfigure.Server{server}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return servers, nil
}

func (c *Client) server(ctx context.Context, node string, spec reconfigure.Spec) reconfigure.Server {
	m, err := c.machine(ctx, node, spec.FlavorID)
	server := reconfigure.Server{
		ID: node, Node: node, Status: statusUnknown, Address: m.address,
		ImageID: spec.ImageID, FlavorID: spec.FlavorID, Group: spec.Group,
	}
	if err == nil {
		server.Status, err = c.soon(ctx, m)
	}
	switch {
	case err != nil:
		server.Fault.Words = err.Error()
	case server.Status == statusError:
		server.Fault.Words = "its command reports a fault"
	}
	return server
}

// soon is status for lists: a machine whose command takes long does not delay the others. The command keeps running,
// and the next list has its answer.
func (c *Client) soon(ctx context.Context, m machine) (reconfigure.ServerStatus, error) {
	const patience = 3 * time.Second
	answer := c.asked.DoChan(m.node, func() (any, error) { return c.status(ctx, m) })
	select {
	case a := <-answer:
		return a.Val.(reconfigure.ServerStatus), a.Err
	case <-time.After(patience):
		return statusUnknown, fmt.Errorf("%s for %s has not ended yet", m.flavor.State[0], m.node)
	case <-ctx.Done():
		return statusUnknown, context.Cause(ctx)
	}
}

// ServersWithFaults is Servers of all nodes.
func (c *Client) ServersWithFaults(ctx context.Context) (map[string][]reconfigure.Server, error) {
	return c.Servers(ctx, nodeset.NodeSet{})
}

// one returns the entry of a machine in service.
func (c *Client) one(ctx context.Context, id string) (reconfigure.Spec, error) {
	desired, err := c.nodes(ctx)
	if err == nil && !desired[id].HasInstance() {
		err = reconfigure.Classify(reconfigure.ClassMissing, fmt.Errorf("machine %s is not in service", id))
	}
	return desired[id], err
}

// Server returns a machine in service, whose id is its node's name; false if the machine is not in service.
func (c *Client) Server(ctx context.Context, id string) (reconfigure.Server, bool, error) {
	desired, err := c.nodes(ctx)
	spec := desired[id]
	if err != nil || !spec.HasInstance() {
		return reconfigure.Server{}, false, err
	}
	return c.server(ctx, id, spec), true, ctx.Err()
}

// Fault returns why a machine is in ERROR, or why its status is unknown.
func (c *Client) Fault(ctx context.Context, id string) (reconfigure.Fault, error) {
	spec, err := c.one(ctx, id)
	if err != nil {
		return reconfigure.Fault{}, err
	}
	return c.server(ctx, id, spec).Fault, ctx.Err()
}

// Reboot switches a machine off and on again. The machine's services end first, if it accepts the login. A command
// with a passing failure is retried for about half a minute.
func (c *Client) Reboot(ctx context.Context, id string) error {
	spec, err := c.one(ctx, id)
	if err != nil {
		return err
	}
	m, err := c.machine(ctx, id, spec.FlavorID)
	if err != nil {
		return err
	}
	if !m.flavor.switched() {
		return fmt.Errorf("machines of flavor %s have no commands in %s: reboot %s by hand", spec.FlavorID, File, id)
	}
	if err := c.again(ctx, func() error { return c.off(ctx, m) }); err != nil {
		return err
	}
	return c.again(ctx, func() error { return c.on(ctx, m) })
}

// again retries after passing failures, with pauses that double.
func (c *Client) again(ctx context.Context, do func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.RandomizationFactor = 2*c.poll, 2, 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && !reconfigure.ClassOf(err).Passing() {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(5), backoff.WithMaxElapsedTime(0))
	return err
}

var errNoConsole = errors.New("the console of a machine is not read")

// Console returns an error.
func (c *Client) Console(context.Context, string, int) (string, error) { return "", errNoConsole }

// RemoveServer returns an error: the map of nodes has all machines that Servers returns, so none is left over.
func (c *Client) RemoveServer(_ context.Context, id, _ string, _ time.Time) error {
	return fmt.Errorf("machine %s is not removed: only a resize or a failure takes it out of service", id)
}

// Room has no limit: each machine exists already.
func (c *Client) Room(ctx context.Context) (reconfigure.Room, error) {
	flavors, err := c.Flavors(ctx)
	none := reconfigure.Use{Instances: -1, Cores: -1, RAM: -1}
	return reconfigure.Room{Limit: none, Flavors: flavors}, err
}

// Flavors returns the size of a machine of each flavor, if the table has it.
func (c *Client) Flavors(context.Context) (map[string]reconfigure.Use, error) {
	uses := map[string]reconfigure.Use{}
	for name, f := range c.table.Flavors {
		if f.Cores > 0 && f.Memory > 0 {
			uses[name] = reconfigure.Use{Instances: 1, Cores: f.Cores, RAM: f.Memory}
		}
	}
	return uses, nil
}

// ProjectServers returns none: there is no project.
func (c *Client) ProjectServers(context.Context) ([]reconfigure.ProjectServer, error) {
	return nil, nil
}

// Namesakes returns none.
func (c *Client) Namesakes(context.Context) (map[string][]reconfigure.Server, error) { return nil, nil }

// Images returns none.
func (c *Client) Images(context.Context) ([]reconfigure.Image, error) { return nil, nil }

// Clock returns this host's time: the machines have no common clock.
func (c *Client) Clock(context.Context) (time.Time, error) { return time.Now(), nil }
