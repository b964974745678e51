package reconfigure

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// ControlGroup is the group name of the control node. No node group may have it.
const ControlGroup = "control"

// Cluster is the declaration in all.yml, checked by package config. It is never modified.
type Cluster struct {
	Name           string // in the metadata of every instance of the cluster
	Provider       string // the kind of the cloud, Provider.Name; empty: the default
	Cloud          string // the cloud's entry in the file that Provider.Credentials names
	LoginUser      string // user account of the images
	PrivateKeyFile string // absolute path of the key that LoginUser accepts
	Control        Control
	Groups         []NodeGroup
	Partitions     []Partition
	Limits         []Limit
	Slurm          Timing
	LaunchAtOnce   bool // slurmctld runs slurmscripts/launch.sh.j2
	DNS            bool // nodes find one another by DNS, and not by /etc/hosts
	NFSShares      []string
	// AllowedCIDRs are the networks from which SSH and ping can reach the nodes; empty: all of IPv4.
	AllowedCIDRs []string
	Settings     Settings
	// Places has the shard of each declared node if the cloud defines it, see Provider.Places; else it is nil.
	Places map[string]string
	// Existing is Provider.Existing.
	Existing bool
}

// Source is the image, flavor and network of an instance, by their names in the cloud. The cloud resolves them to
// ids.
type Source struct {
	Image, Flavor, Network string
	Placement
}

// Control is the node that runs slurmctld.
type Control struct {
	Name string // the host if Existing is set
	Source
	// Existing is a control node that the site runs; nil: the control node is an instance of the cluster.
	Existing *ExistingControl
}

// ExistingControl is a control node that the site runs. Terraform does not know it.
type ExistingControl struct {
	Host      string // name or IP address, for SSH
	User      string // account for SSH
	SlurmConf string // absolute path of slurm.conf there
	// CIDRs are the networks of the site's nodes, which may connect to ours.
	CIDRs []string
	// ByImage reports whether the image of a node configures it.
	ByImage bool
	// Playbook is the absolute path of the site's playbook that configures nodes.
	Playbook string
	// Command is the command of the site that configures nodes.
	Command []string
}

// ConfiguredBySite reports whether the site configures the nodes, and not the playbooks of reconfigure: by one of
// ByImage, Playbook and Command.
func (c ExistingControl) ConfiguredBySite() bool {
	return c.ByImage || c.Playbook != "" || len(c.Command) > 0
}

// Path returns the folders of Slurm's programs there, as a value of PATH. Slurm's own build installs the programs and
// slurm.conf in folders below one prefix.
func (c ExistingControl) Path() string {
	folders := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	prefixes := []string{"/opt/slurm", "/usr/local/slurm"}
	if prefix, ok := strings.CutSuffix(path.Dir(c.SlurmConf), "/etc"); ok && prefix != "" {
		prefixes = append(prefixes, prefix)
	}
	for _, other := range prefixes {
		for _, kind := range []string{"/bin", "/sbin"} {
			if folder := other + kind; !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	return strings.Join(folders, ":")
}

// ExistingID is the id of the control node's Instance if the site runs it. No cloud has an instance with it.
const ExistingID = "existing"

// Attached reports whether the site runs the control node.
func (c Cluster) Attached() bool { return c.Control.Existing != nil }

// ControlUser returns the account for SSH on the control node.
func (c Cluster) ControlUser() string {
	if c.Attached() {
		return c.Control.Existing.User
	}
	return c.LoginUser
}

// NodeGroup is a pool of like nodes. The first Min nodes are persistent, the others up to Max are cloud nodes.
type NodeGroup struct {
	Name   string
	Prefix string // of the node names
	Width  int    // digits of a node's number, padded with zeros
	Source
	// Fallbacks are the flavors of a cloud node for whose own the cloud has no room, by name or id, in their order.
	Fallbacks []string
	// FallbackZones are the zones of a cloud node for which the cloud has no room in its own, in their order.
	FallbackZones []string
	Min, Max      int
	// KeepPorts reports whether the nodes of the group keep their ports, and with them their addresses, while they have
	// no instance.
	KeepPorts bool
	// WhenIdle is what to do with the instance of a cloud node that Slurm suspends.
	WhenIdle WhenIdle
	// MaxStopped is the maximum number of stopped instances of the group; further ones are removed.
	MaxStopped int
	// Features has the features of a node (slurm.conf(5), Features).
	Features []string
	// Gres has the generic resources of a node (slurm.conf(5), Gres); empty: none.
	Gres string
	// MaxAge is the maximum age of an instance of the group. An older one is replaced when its jobs have ended; 0: no
	// maximum.
	MaxAge time.Duration
	// HealthChecks are the names of the checks that a node must pass before its slurmd starts, in their order: scripts of
	// the site, or shipped ones; none: it is not checked.
	HealthChecks []string
	// HealthLimit is the time limit of each of these checks.
	HealthLimit time.Duration
	// HealthInterval is the time after which an idle node is checked again; 0: never.
	HealthInterval time.Duration
	// Spare is the number of cloud nodes that are kept idle for the next jobs, beyond the nodes that jobs use.
	Spare int
	// SpareHours are the hours in which Spare counts, in the local time of the worker.
	SpareHours Hours
	// Slurm has the further settings of the NodeName line (slurm.conf(5)), by keys in lower case.
	Slurm map[string]string
}

// HealthFolder is the folder of the health checks on a node.
const HealthFolder = "/etc/slurm/health"

// SiteHealthFolder is where a site has its own health checks, below the cluster directory.
const SiteHealthFolder = "ansible/files/health"

// ShippedHealthChecks are the names of the health checks in the binary.
func ShippedHealthChecks() []string { return []string{"disks", "gpus", "memory"} }

// WhenIdle is what to do with an idle instance.
type WhenIdle string

// The ways. The zero value is IdleDelete.
const (
	IdleDelete WhenIdle = "delete"
	IdleStop   WhenIdle = "stop"
	IdleShelve WhenIdle = "shelve"
)

// Power returns the power state of an idle instance; empty if it is removed.
func (w WhenIdle) Power() Power {
	return map[WhenIdle]Power{IdleStop: PowerOff, IdleShelve: Shelved}[w]
}

// Partition is a partition in Slurm, with the nodes of one or more node groups.
type Partition struct {
	Name   string
	Groups []string
	// AllOrNothing reports whether a job gets none of its nodes if there is no room for all of them.
	AllOrNothing bool
	// Fresh reports whether each job gets instances that no job used before.
	Fresh bool
	// Default reports whether jobs that name no partition get this one.
	Default bool
	// Slurm has the further settings of the PartitionName line (slurm.conf(5)), by keys in lower case.
	Slurm map[string]string
}

// Limit is the maximum number of nodes of some groups together that exist at a time. The persistent nodes of the
// groups always count.
type Limit struct {
	Groups []string
	Max    int
}

// String names the groups, for messages.
func (l Limit) String() string { return strings.Join(l.Groups, ", ") }

// Timing is the configuration of Slurm's power saving (slurm.conf(5)).
type Timing struct {
	SuspendTime, SuspendTimeout, ResumeTimeout time.Duration
	ResumeRate, SuspendRate                    int      // nodes a minute; 0: no maximum
	Parameters                                 []string // further SlurmctldParameters
}

// Settings is the configuration of the tool itself.
type Settings struct {
	StateDir  string // absolute path
	Directory string // of the cluster on the control hosts, as declared; the keys of Slurm's scripts name it
	// ControlUser is the owner of that directory, as declared; ControlHosts are the addresses of the control hosts.
	ControlUser  string
	ControlHosts []string
	// AuthorizedKeys is the file with the keys of Slurm's scripts: an absolute path, or one that begins with ~ or ~USER.
	AuthorizedKeys string
	Journal        string        // the URL of a PostgreSQL database; empty: SQLite in StateDir
	Keep           time.Duration // how long the journal keeps requests and their events after the outcome; 0: forever
	Gather         time.Duration // how long the worker waits for requests that arrive together
	Worker         WorkerStart
	Reconcile      time.Duration // interval of the worker's comparison of the sources; 0: never
	// Notify is the path of the command that a worker tells of failures, findings and paused campaigns; empty: none.
	Notify string
	// NotifyClasses are the classes of failures, "finding" and "campaign" that it is told of; empty: all.
	NotifyClasses []string
	// Metrics is the address at which a worker exports metrics: HOST:PORT of the loopback, or the absolute path of a Unix
	// socket; empty: it exports none.
	Metrics     string
	Terraform   string        // path of the binary; empty: found or downloaded
	Parallelism int           // the maximum number of instances that Terraform changes at a time
	LockTimeout time.Duration // how long Terraform waits for the lock of its state
	// Interrupt reports whether a run of Terraform is interrupted when the cloud has its instances as asked.
	Interrupt   bool
	BootTimeout time.Duration
	Retries     int // how many further instances are tried for a node that Slurm waits for
	HostKeys    HostKeyPolicy
	// CoolDown is how long Slurm's calls get no new nodes of a group after the cloud had no room for one; 0: no
	// cool-down.
	CoolDown time.Duration
	// Breaker is the number of consecutive boot failures of a group after which Slurm's calls get one new node at a
	// time; 0: no limit.
	Breaker int
	// NodesPerState is the maximum number of nodes of a cluster with one Terraform state, and about the number of nodes
	// of each state of a larger one; 0: always one state.
	NodesPerState int
	// CanaryJob is the command that a campaign runs as a job on the first node that it has updated; empty: none.
	CanaryJob string
	// CanaryTime is the time limit of that job, in whole minutes.
	CanaryTime time.Duration
}

// SlurmKeyFile is the private key with which the control host drives Slurm. The playbooks make it, and restrict it on
// the control node to the commands of package slurm.
func (s Settings) SlurmKeyFile() string { return filepath.Join(s.StateDir, "slurm_key") }

// WorkerStart is the way in which a worker is started for a request.
type WorkerStart string

// The ways: with WorkerSelf, each call starts a worker if none is running; with WorkerSystemd, it asks systemd to
// start the worker, which is a service of this host.
const (
	WorkerSelf    WorkerStart = "self"
	WorkerSystemd WorkerStart = "systemd"
)

// HostKeyPolicy is the way in which the host key of a new instance becomes known.
type HostKeyPolicy string

// The policies: HostKeysConsole reads the keys from the console log, where cloud-init prints them, so that they come
// through the cloud's authenticated API; HostKeysAcceptNew accepts the first key at a new instance's address.
const (
	HostKeysConsole   HostKeyPolicy = "console"
	HostKeysAcceptNew HostKeyPolicy = "accept-new"
)

// Sources returns the source of the group's nodes, and then those that are tried while the cloud has no room for it, in
// their order: the other zones for each flavor.
func (g NodeGroup) Sources() (all []Source) {
	for _, flavor := range append([]string{g.Flavor}, g.Fallbacks...) {
		for _, zone := range append([]string{g.Zone}, g.FallbackZones...) {
			source := g.Source
			source.Flavor, source.Zone = flavor, zone
			all = append(all, source)
		}
	}
	return all
}

// FallbackSources are the sources after the first one.
func (g NodeGroup) FallbackSources() []Source { return g.Sources()[1:] }

// HealthTime returns the longest time of all health checks of a node.
func (g NodeGroup) HealthTime() time.Duration {
	const killAfter = 5 * time.Second // of timeout(1) in ansible/health/run
	return time.Duration(len(g.HealthChecks)) * (g.HealthLimit + killAfter)
}

// Node returns the name of the i-th node, counted from 1.
func (g NodeGroup) Node(i int) string { return fmt.Sprintf("%s%0*d", g.Prefix, g.Width, i) }

// Nodes returns all nodes of the group.
func (g NodeGroup) Nodes() nodeset.NodeSet { return g.first(g.Max) }

// Persistent returns the persistent nodes of the group.
func (g NodeGroup) Persistent() nodeset.NodeSet { return g.first(g.Min) }

// CloudNodes returns the nodes of the group that are not persistent.
func (g NodeGroup) CloudNodes() nodeset.NodeSet { return g.Nodes().Difference(g.Persistent()) }

func (g NodeGroup) first(n int) nodeset.NodeSet {
	names := make([]string, n)
	for i := range names {
		names[i] = g.Node(i + 1)
	}
	return nodeset.Of(names...)
}

// Nodes returns all declared compute nodes.
func (c Cluster) Nodes() nodeset.NodeSet { return c.union(NodeGroup.Nodes) }

// Persistent returns all persistent compute nodes.
func (c Cluster) Persistent() nodeset.NodeSet { return c.union(NodeGroup.Persistent) }

func (c Cluster) union(of func(NodeGroup) nodeset.NodeSet) nodeset.NodeSet {
	var all nodeset.NodeSet
	for _, g := range c.Groups {
		all = all.Union(of(g))
	}
	return all
}

// WithMin returns a copy of the cluster with another number of persistent nodes in one of its groups.
func (c Cluster) WithMin(group string, n int) Cluster {
	c.Groups = slices.Clone(c.Groups)
	for i := range c.Groups {
		if c.Groups[i].Name == group {
			c.Groups[i].Min = n
		}
	}
	return c
}

// WithImage returns a copy of the cluster with another image in one of its groups.
func (c Cluster) WithImage(group, image string) Cluster {
	c.Groups = slices.Clone(c.Groups)
	for i := range c.Groups {
		if c.Groups[i].Name == group {
			c.Groups[i].Image = image
		}
	}
	return c
}

// GroupOf returns the group of a node; false if the node is not declared.
func (c Cluster) GroupOf(node string) (NodeGroup, bool) {
	for _, g := range c.Groups {
		if _, ok := g.Number(node); ok {
			return g, true
		}
	}
	return NodeGroup{}, false
}

// GroupNamed returns the group with a name. The error names all groups.
func GroupNamed(groups []NodeGroup, name string) (NodeGroup, error) {
	names := make([]string, len(groups))
	for i, g := range groups {
		if g.Name == name {
			return g, nil
		}
		names[i] = g.Name
	}
	return NodeGroup{}, fmt.Errorf("there is no node group %q; the groups of all.yml are %s",
		name, strings.Join(names, ", "))
}

// DefaultShard is the shard of the control node and of the shared resources: Terraform's default workspace.
const DefaultShard = ""

// Shard returns the shard for a new entry in the map of nodes. The shard of an entry never changes, so only code that
// makes entries may call this. It is the default shard if the cluster has at most NodesPerState nodes, or if the node
// is not a declared compute node.
func (c Cluster) Shard(node string) string {
	if c.Places != nil {
		return c.Places[node]
	}
	per := c.Settings.NodesPerState
	if per <= 0 || c.size() <= per {
		return DefaultShard
	}
	for _, g := range c.Groups {
		if i, ok := g.Number(node); ok {
			return fmt.Sprintf("%s-%d", g.Name, (i-1)/per)
		}
	}
	return DefaultShard
}

// size returns the number of declared compute nodes.
func (c Cluster) size() int {
	n := 0
	for _, g := range c.Groups {
		n += g.Max
	}
	return n
}

// KeepsPort reports whether a node keeps its port while it has no instance, by the declaration of its group.
func (c Cluster) KeepsPort(node string) bool {
	g, ok := c.GroupOf(node)
	return ok && g.KeepPorts
}

// ChangesAddresses reports whether one of some nodes may get another address with its instance, because it does not
// keep its port. Then all nodes must get the new addresses.
func (c Cluster) ChangesAddresses(nodes nodeset.NodeSet) bool {
	return !nodes.Where(func(node string) bool { return !c.KeepsPort(node) }).Empty()
}

// KeepsStopped reports whether the stopped instance of a node is kept: its group stops idle instances, and does not
// have more of them than its maximum. Nodes is a map with the entry of the node.
func (c Cluster) KeepsStopped(node string, nodes map[string]Spec) bool {
	g, ok := c.GroupOf(node)
	if !ok || g.WhenIdle.Power() == "" {
		return false
	}
	others := 0
	for other, spec := range nodes {
		if other != node && spec.Group == g.Name && spec.Stopped() {
			others++
		}
	}
	return others < g.MaxStopped
}

// WithoutInstance returns a node's entry in the map of nodes after the removal of its instance; false if it then has
// none.
func (c Cluster) WithoutInstance(node string, was Spec) (Spec, bool) {
	if !c.KeepsPort(node) {
		return Spec{}, false
	}
	return was.PortOnly()
}

// Fresh reports whether each node of a group serves one job: a partition over it has Fresh.
func (c Cluster) Fresh(group string) bool {
	return slices.ContainsFunc(c.Partitions, func(p Partition) bool {
		return p.Fresh && slices.Contains(p.Groups, group)
	})
}

// Shards returns the shards of a map of nodes, sorted. The default shard is always the first.
func Shards(nodes map[string]Spec) []string {
	found := map[string]bool{DefaultShard: true}
	for _, spec := range nodes {
		found[spec.Shard] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// InShard returns the entries of a map of nodes that are in a shard.
func InShard(nodes map[string]Spec, shard string) map[string]Spec {
	part := map[string]Spec{}
	for node, spec := range nodes {
		if spec.Shard == shard {
			part[node] = spec
		}
	}
	return part
}

// Number returns the number of a node in the group, from 1 to Max; false if the group has no such node.
func (g NodeGroup) Number(node string) (int, bool) {
	digits, ok := strings.CutPrefix(node, g.Prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 1 || i > g.Max || g.Node(i) != node {
		return 0, false
	}
	return i, true
}
