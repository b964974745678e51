package reconfigure

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Access selects the cloud of an adapter, and the cluster's instances in it.
type Access struct {
	Cloud    string // the entry of the cloud in the file that Provider.Credentials names
	Dir      string // the cluster directory, absolute
	Cluster  string // the cluster's name, which is not unique
	Identity Identity
	// Means is for the adapter of a provider with Existing.
	Means Means
}

// Means has what an adapter of existing machines uses instead of Terraform and a cloud's API.
type Means struct {
	Control string // the control node's name
	// Nodes reads the map of nodes, and KeepNodes durably replaces the entries of a shard in it. KeepNodes is nil if
	// nothing may be changed, and fails for a worker that has lost the lease.
	Nodes     func(ctx context.Context) (map[string]Spec, error)
	KeepNodes func(ctx context.Context, shard string, nodes map[string]Spec) error
	// Login runs a command on a node as the login user, by SSH.
	Login func(ctx context.Context, i Instance, command []string) error
	// States asks Slurm on a control node.
	States func(ctx context.Context, control Instance, nodes nodeset.NodeSet) (map[string]NodeState, error)
	// Environ is the environment of programs on this host.
	Environ []string
}

// Provider describes a kind of cloud. Its adapter has the only value of it, and docs/guides/clouds.md the contract.
type Provider struct {
	// Name is the value of provider in all.yml, and the folder of the root module below terraform/.
	Name string
	// Existing reports whether the nodes are existing machines: they are switched on and off, but never made,
	// replaced or removed. There is no Terraform, so Module and Plugin are empty.
	Existing bool
	// Module is the root module.
	Module RootModule
	// Plugin is Terraform's provider.
	Plugin Plugin
	// Credentials returns the path of the file with the cloud's address and credentials; empty if there is none.
	Credentials func(dir string) string
	// Advice says where to configure the cloud, with a recommendation.
	Advice string
	// Variables returns variables of the environment that Terraform's provider needs.
	Variables func(dir string) map[string]string
	// Commands are an administrator's commands for changes that are not automatic.
	Commands CloudCommands
	// Places returns the shard of each declared node if the cloud has several places for instances, such as hosts;
	// nil: the shards follow from the numbers of the nodes. It depends only on the declaration and the cloud's file,
	// so it may be called at any time. The error is one of the declaration or the file.
	Places func(dir string, c Cluster) (map[string]string, error)
}

// RootModule describes the resources of a cloud's root module. The nodes' resources are named "node", so that the
// block of the instances is Instance.node.
type RootModule struct {
	Instance string // type of a node's instance
	Port     string // type of a node's port, which outlives the instance; empty: the nodes have no kept ports
	// PortAddresses is the attribute of a port that is the list of its addresses.
	PortAddresses string
	// Group is the type of the resource "cluster" whose id all workspaces need; empty: there is none.
	Group string
	// Replace is the type of a node's resource whose replacement replaces the instance and everything that belongs to
	// it.
	Replace string
	// Firewall reports whether the module allows SSH and ping only from the networks that allowed_cidrs declares.
	Firewall bool
	// Placement reports whether the module places an instance as its entry in the map of nodes says.
	Placement bool
	// Updates has the effect of an update in place of an attribute of an instance. Other attributes have EffectUpdate.
	Updates map[string]Effect
	// Power is the attribute of an instance that is PowerActive if the instance should run; empty: the nodes are not
	// stopped.
	Power string
	// RefreshRemovals makes Terraform also refresh before a removal: for its provider, the removal of a missing
	// instance is a failure.
	RefreshRemovals bool
	// Unset are the environment variables that would make Terraform's provider create other instances.
	Unset []string
	// Read converts the attributes of an instance in Terraform's state.
	Read func(attributes map[string]any) Made
	// Attributes are those that Read uses: a state of thousands of instances has many more.
	Attributes []string
	// Finish adds those attributes to a new instance that Terraform adds when the instance is finished. Nil:
	// instances are not adopted, and Terraform is not interrupted.
	Finish func(attributes map[string]any, server Server, networkID string)
	// Class returns the class of an error of Terraform's provider.
	Class func(words string) Class
}

// PowerActive is the value of RootModule.Power of a running instance.
const PowerActive = "active"

// InstanceBlock returns the block of the nodes' instances.
func (m RootModule) InstanceBlock() string { return m.Instance + ".node" }

// PortBlock returns the block of the nodes' ports; empty if there is none.
func (m RootModule) PortBlock() string {
	if m.Port == "" {
		return ""
	}
	return m.Port + ".node"
}

// ReplaceBlock returns the block whose replacement replaces the instances.
func (m RootModule) ReplaceBlock() string { return m.Replace + ".node" }

// Made is an instance as Terraform's state has it. The spec has no shard.
type Made struct {
	Spec
	Address string // fixed, in the cluster's network
	Port    string // id of the port; empty: unknown
}

// Plugin is a provider of Terraform, with the versions that are supported.
type Plugin struct {
	Source string   // in the registry, as in required_providers
	Oldest string   // the oldest version that works
	Tested []string // the versions with which the tests run
}

// CloudCommands are the beginnings of commands; the id of an instance or a port is appended.
type CloudCommands struct {
	Remove     string                  // removes an instance
	RemovePort string                  // removes a port
	Start      map[ServerStatus]string // starts an instance, by its status; none: there is no single command
}

// WithoutPorts returns a copy of the cluster without kept ports.
func (c Cluster) WithoutPorts() Cluster {
	groups := make([]NodeGroup, len(c.Groups))
	for i, g := range c.Groups {
		g.KeepPorts = false
		groups[i] = g
	}
	c.Groups = groups
	return c
}

// ProjectServer is a server of a project or host, the cluster's or not.
type ProjectServer struct {
	ID, Name string
	Cluster  string // the cluster's name in its metadata; empty: none
	Ours     bool   // it belongs to this cluster
}
