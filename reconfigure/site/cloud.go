package site

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/libvirt"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/machines"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/vsphere"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// providers returns the kinds of clouds, one line for each. The first is the default.
func providers() []provider {
	return []provider{
		wire(openstack.Provider(), openstack.Open, openstack.Check),
		wire(libvirt.Provider(), libvirt.Open, libvirt.Check),
		wire(vsphere.Provider(), vsphere.Open, vsphere.Check),
		wire(machines.Provider(), machines.Open, machines.Check).switching(
			func(c Cloud, shard string) Driver { return c.(*machines.Client).Shard(shard) }),
	}
}

// Cloud is the interface of a cloud's adapter. docs/guides/add-cloud.md has the contract, and package cloudtest its
// suites.
type Cloud interface {
	operation.Cloud
	operation.Quota
	operation.Images
	reconcile.Cloud
	observed
	project
}

// observed has the calls for the comparison of the sources.
type observed interface {
	// Resolve returns the current ids of the names of a source.
	Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved
	// ServersWithFaults is operation.Cloud's Servers for all nodes, with the faults of those in ERROR.
	ServersWithFaults(ctx context.Context) (map[string][]reconfigure.Server, error)
	// Ports returns the ports of the cluster, by node; none if the root module has no ports.
	Ports(ctx context.Context) (map[string][]reconfigure.Port, error)
	// Port returns the id of the only port of an instance.
	Port(ctx context.Context, id string) (string, error)
}

// Takeover is the part of a Cloud in which servers of somebody else may become instances of the cluster.
type Takeover interface {
	// Candidates returns the project's servers with the names of these nodes, of any cluster or of none, with their
	// ports.
	Candidates(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Candidate, error)
	// Claim marks a server that belongs to no cluster, and its port, as the instance of a node. It may be repeated.
	Claim(ctx context.Context, id, node, group string) error
	// Disclaim makes a server and its port as they were before Claim. A server that is gone, or not the cluster's, is
	// success.
	Disclaim(ctx context.Context, id string) error
}

// project has the calls for the project around the cluster.
type project interface {
	// ProjectServers returns all instances that the cluster's could be mistaken for.
	ProjectServers(ctx context.Context) ([]reconfigure.ProjectServer, error)
	// Namesakes returns the instances with the cluster's name and another id, by that id.
	Namesakes(ctx context.Context) (map[string][]reconfigure.Server, error)
	// Mark gives the cluster's id to instances and ports, by their ids, that have only its name. It returns the
	// remaining instances with that name and no id.
	Mark(ctx context.Context, servers, ports []string) ([]reconfigure.Server, error)
	// Images returns all images.
	Images(ctx context.Context) ([]reconfigure.Image, error)
	// Flavors returns the use by one instance of each flavor, by name and by id.
	Flavors(ctx context.Context) (map[string]reconfigure.Use, error)
	// Clock returns the cloud's time; zero if the cloud does not report it.
	Clock(ctx context.Context) (time.Time, error)
}

// provider is a kind of cloud with its adapter.
type provider struct {
	reconfigure.Provider
	open  func(context.Context, reconfigure.Access) (Cloud, error)
	check func(reconfigure.Access) error
	shard func(cloud Cloud, shard string) Driver // of existing machines; nil: Terraform
}

// switching returns the provider with shards of the cloud's adapter instead of Terraform.
func (p provider) switching(shard func(Cloud, string) Driver) provider {
	p.shard = shard
	return p
}

// wire connects an adapter with the description of its cloud.
func wire[C Cloud](
	p reconfigure.Provider, open func(context.Context, reconfigure.Access) (C, error),
	check func(reconfigure.Access) error,
) provider {
	return provider{p, func(ctx context.Context, access reconfigure.Access) (Cloud, error) {
		cloud, err := open(ctx, access)
		if err != nil {
			return nil, err // not a nil C
		}
		return cloud, nil
	}, check, nil}
}

// providerNamed returns the kind of cloud that the declaration in dir names; the default for an empty name.
func providerNamed(dir, name string) (provider, error) {
	var names []string
	for _, p := range providers() {
		if p.Name == name || name == "" {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return provider{}, config.Wrong(dir, "provider", "%q is none of %s", name, strings.Join(names, ", "))
}

// adapt removes the features that the kind of cloud lacks from a declaration, and places the nodes. It returns an
// error for such a setting if it is never the default.
func (p provider) adapt(dir string, c reconfigure.Cluster) (reconfigure.Cluster, error) {
	if err := p.placesAs(dir, c); err != nil {
		return c, err
	}
	if p.Existing {
		return p.adaptExisting(dir, c)
	}
	if p.Module.Port == "" {
		c = c.WithoutPorts()
	}
	for i, g := range c.Groups {
		if p.Module.Power == "" && g.WhenIdle.Power() != "" {
			return c, config.Wrong(dir, fmt.Sprintf("node_groups[%d].when_idle", i),
				"%s is not possible with provider %s; set it to %s", g.WhenIdle, p.Name, reconfigure.IdleDelete)
		}
	}
	c.Settings.Interrupt = c.Settings.Interrupt && p.Module.Finish != nil
	if p.Places == nil {
		return c, nil
	}
	var err error
	c.Places, err = p.Places(dir, c)
	return c, err
}

// placesAs returns an error for a declared placement if the root module of the kind of cloud has none.
func (p provider) placesAs(dir string, c reconfigure.Cluster) error {
	if p.Module.Placement {
		return nil
	}
	wrong := func(key string, placement reconfigure.Placement) error {
		if placement == (reconfigure.Placement{}) {
			return nil
		}
		return config.Wrong(dir, key, "availability_zone, server_group, scheduler_hints and metadata are not possible "+
			"with provider %s; remove them", p.Name)
	}
	err := wrong("control_node", c.Control.Placement)
	for i, g := range c.Groups {
		err = cmp.Or(err, wrong(fmt.Sprintf("node_groups[%d]", i), g.Placement))
	}
	return err
}

// adaptExisting adapts a declaration to existing machines: idle nodes are switched off and keep their addresses.
func (p provider) adaptExisting(dir string, c reconfigure.Cluster) (reconfigure.Cluster, error) {
	if c.Settings.HostKeys != reconfigure.HostKeysAcceptNew {
		return c, config.Wrong(dir, "reconfigure.host_keys", "%s is not possible with provider %s, since no console is "+
			"read; set it to %s", c.Settings.HostKeys, p.Name, reconfigure.HostKeysAcceptNew)
	}
	c.Existing, c.Settings.Interrupt = true, false
	c.Groups = slices.Clone(c.Groups)
	for i, g := range c.Groups {
		if g.WhenIdle == reconfigure.IdleShelve {
			return c, config.Wrong(dir, fmt.Sprintf("node_groups[%d].when_idle", i),
				"%s is not possible with provider %s; set it to %s", g.WhenIdle, p.Name, reconfigure.IdleStop)
		}
		if g.MaxAge > 0 {
			return c, config.Wrong(dir, fmt.Sprintf("node_groups[%d].max_age", i),
				"it is not possible with provider %s, which replaces no instances; remove it", p.Name)
		}
		if c.Fresh(g.Name) {
			return c, config.Wrong(dir, "partitions", "fresh: job of a partition over node group %s is not possible with "+
				"provider %s, which replaces no instances; remove it", g.Name, p.Name)
		}
		c.Groups[i].WhenIdle, c.Groups[i].MaxStopped, c.Groups[i].KeepPorts = reconfigure.IdleStop, g.Max, true
	}
	var err error
	if c.Places, err = p.Places(dir, c); err != nil {
		err = fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return c, err
}

// CloudConfigured returns an error if the declared cloud is not in its file.
func (s Site) CloudConfigured() error {
	err := s.provider.check(s.access(reconfigure.Identity{}))
	if err != nil {
		err = fmt.Errorf("%w; %s", err, s.Provider.Advice)
	}
	return err
}

func (s Site) access(identity reconfigure.Identity) reconfigure.Access {
	return reconfigure.Access{
		Cloud: s.Cluster.Cloud, Dir: s.Dir, Cluster: s.Cluster.Name, Identity: identity,
	}
}

// cloud logs in to the cloud. Without a journal it identifies the cluster's instances by the files of this host.
func (s Site) cloud(ctx context.Context, log *journal.Journal) (Cloud, error) {
	identity, err := s.identity(ctx, log)
	if err != nil {
		return nil, err
	}
	access := s.access(identity)
	if s.Provider.Existing {
		access.Means = s.means(log)
	}
	return s.provider.open(ctx, access)
}

// Clouds returns the names of the clouds that a new site folder may declare, of the default kind; none if there is no
// file with credentials.
func Clouds(dir string) ([]string, error) { return openstack.Clouds(dir) }

// Offer asks a cloud of the default kind what it has for a new declaration. The call may be retried.
func Offer(ctx context.Context, dir, cloud string) (reconfigure.Offer, error) {
	c, err := openstack.Open(ctx, reconfigure.Access{Cloud: cloud, Dir: dir})
	if err != nil {
		return reconfigure.Offer{}, err
	}
	return c.Offer(ctx)
}

// Kinds returns the names of the kinds of clouds.
func Kinds() []string {
	var all []string
	for _, p := range providers() {
		all = append(all, p.Name)
	}
	return all
}
