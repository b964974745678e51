package labcloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cloud is one cloud with one project and one user. Its methods may be called
// from several goroutines.
type Cloud struct {
	cfg        Config
	hypervisor Hypervisor
	mux        *http.ServeMux
	faults     *Faults
	calls      callCounter
	projectID  string
	userID     string
	// begun is the creation time of the networks.
	begun time.Time
	// defaultGroup is the id of the security group "default".
	defaultGroup string
	// closing is closed when Close begins, which ends the calls that hang.
	closing chan struct{}
	// operations counts the changes of servers that are under way.
	operations sync.WaitGroup

	mu     sync.Mutex
	closed bool
	tokens map[string]time.Time
	state
}

// state is the state of all services. Cloud.mu guards it.
type state struct {
	images         table[*imageRecord]
	flavors        table[Flavor]
	keypairs       table[*keypair]
	servers        table[*server]
	serverGroups   table[serverGroup]
	networks       table[*subnetwork]
	ports          table[*port]
	securityGroups table[*securityGroup]
	rules          table[*securityGroupRule]
	floatingIPs    table[*floatingIP]
	computeQuota   map[string]int
	networkQuota   map[string]int
	// used is the part of the compute quota that the servers use.
	used usage
}

// New returns a cloud whose servers run on h. The error has all mistakes of cfg.
func New(cfg Config, h Hypervisor) (*Cloud, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("labcloud configuration: %w", err)
	}
	cfg = cfg.defaults()
	c := &Cloud{
		cfg:        cfg,
		hypervisor: h,
		projectID:  hexID(stableID("project", cfg.Project)),
		userID:     hexID(stableID("user", cfg.User)),
		begun:      time.Now(),
		closing:    make(chan struct{}),
		tokens:     make(map[string]time.Time),
	}
	c.computeQuota, c.networkQuota = cfg.Quotas.sets()
	for _, f := range cfg.Flavors {
		f.ID = cmp.Or(f.ID, stableID("flavor", f.Name))
		if _, taken := c.state.flavors.get(f.ID); taken {
			return nil, fmt.Errorf("labcloud configuration: two flavors have the id %q", f.ID)
		}
		c.state.flavors.add(f.ID, f)
	}
	for _, n := range cfg.Networks {
		s := newSubnetwork(n)
		if _, taken := c.networks.get(s.id); taken {
			return nil, fmt.Errorf("labcloud configuration: two networks have the name %q", n.Name)
		}
		c.networks.add(s.id, s)
	}
	for _, i := range cfg.Images {
		if err := c.AddImage(i.ID, i.Name); err != nil {
			return nil, fmt.Errorf("labcloud configuration: %w", err)
		}
	}
	c.addDefaultSecurityGroup()
	routes := c.routes()
	c.faults = newFaults(labels(routes))
	c.mux = c.newMux(routes)
	return c, nil
}

// AddImage adds an image. The hypervisor must know its id already. An id that is in use is an error; two images may
// have the same name, as in Glance.
func (c *Cloud) AddImage(id, name string) error {
	if id == "" || name == "" {
		return errors.New("an image needs an id and a name")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.state.images.get(id); taken {
		return fmt.Errorf("there is an image with the id %q already", id)
	}
	c.state.images.add(id, newImage(id, name))
	return nil
}

// Faults returns the requested faults.
func (c *Cloud) Faults() *Faults { return c.faults }

// Calls returns the number of calls so far by method and route, as "POST /compute/v2.1/servers"; actions carry their
// name, as "POST /compute/v2.1/servers/{id}/action rebuild".
func (c *Cloud) Calls() map[string]int { return c.calls.snapshot() }

// Server is the short form of a server, for tables and tests.
type Server struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Status is Nova's, "ACTIVE" for example.
	Status string `json:"status"`
	// Task is Nova's task state, empty if nothing is under way.
	Task string `json:"task,omitempty"`
	// Flavor and Image are the flavor's name and the image's id.
	Flavor string `json:"flavor"`
	Image  string `json:"image"`
	// Zone is where it runs; empty if it has no host.
	Zone string `json:"zone,omitempty"`
	// Addresses are the fixed addresses.
	Addresses []netip.Addr `json:"addresses"`
	Created   time.Time    `json:"created"`
	// Fault is why the server is in ERROR.
	Fault string `json:"fault,omitempty"`
}

// Servers returns all servers, oldest first.
func (c *Cloud) Servers() []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serverList()
}

// serverList is Servers for a caller that holds the mutex.
func (c *Cloud) serverList() []Server {
	list := make([]Server, 0, c.servers.size())
	for _, s := range c.servers.all() {
		short := Server{
			ID: s.id, Name: s.name, Status: s.status(), Task: s.task,
			Flavor: s.flavor.Name, Image: s.image, Zone: s.zone, Addresses: c.fixedAddresses(s), Created: s.created,
		}
		if s.fault != nil {
			short.Fault = s.fault.message
		}
		list = append(list, short)
	}
	return list
}

// closeParallel is the number of machines that Close destroys at a time.
const closeParallel = 16

// Close rejects further calls, ends those that hang, cancels running changes and destroys all machines. If the
// hypervisor fails or ctx ends, it returns an error and may be called again.
func (c *Cloud) Close(ctx context.Context) error {
	ids := c.shut()
	done := make(chan struct{})
	go func() {
		c.operations.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("waiting for changes under way: %w", ctx.Err())
	}
	errs := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(closeParallel)
	for i, id := range ids {
		group.Go(func() error {
			if err := c.hypervisor.Destroy(ctx, id); err != nil {
				errs[i] = fmt.Errorf("destroying %s: %w", id, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has each error
	return errors.Join(errs...)
}

// shut rejects new calls and cancels running changes.
func (c *Cloud) shut() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	for id, s := range c.servers.all() {
		ids = append(ids, id)
		if s.operation != nil {
			s.operation.cancel()
		}
	}
	return ids
}

// callCounter counts calls by label.
type callCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (k *callCounter) count(label string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counts == nil {
		k.counts = make(map[string]int)
	}
	k.counts[label]++
}

func (k *callCounter) snapshot() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.counts)
}
