package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/configure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// The adapters fit the interfaces of operation and controller by shape. This checks it.
var (
	_ Driver                = (*terraform.Driver)(nil)
	_ operation.Cleaner     = (*ansible.Runner)(nil)
	_ operation.Waiter      = (*ssh.Waiter)(nil)
	_ operation.Configurer  = (*ansible.Runner)(nil)
	_ operation.Scheduler   = (*slurm.Client)(nil)
	_ operation.Commenter   = (*slurm.Client)(nil)
	_ operation.Starter     = starter{}
	_ operation.SumStore    = (*journal.Journal)(nil)
	_ operation.HealthStore = (*journal.Journal)(nil)
	_ controller.Journal    = (*journal.Journal)(nil)
	_ terraform.Keeper      = (*journal.Journal)(nil)
	_ ssh.Keeper            = (*journal.Journal)(nil)
)

// Driver manages the nodes of one shard.
type Driver interface {
	operation.Provisioner
	// StateOf is State, for a map of nodes that was read already; known reports whether there is one. The answer need
	// not have Desired.
	StateOf(ctx context.Context, nodes map[string]reconfigure.Spec, known bool) (reconfigure.State, error)
	// Addresses returns the addresses of nodes, with or without an instance. If fresh is false, they may be those of
	// the last call, unless this process has changed the state since.
	Addresses(ctx context.Context, fresh bool) (map[string]string, error)
	// Owned returns the ids of the nodes' instances and ports.
	Owned(ctx context.Context) (servers, ports []string, err error)
}

// Adapters has the adapters for one declared cluster. Each is opened once, when it is first needed.
type Adapters struct {
	Site    Site
	Journal *journal.Journal // nil if there is none yet, and nothing is to be carried out
	logger  *slog.Logger
	reads   bool // no file is made, and nothing is downloaded

	lock    sync.Mutex
	drivers map[string]Driver // by shard
	binary  string            // the Terraform of the drivers; empty: not known yet
	cloud   Cloud
	login   singleflight.Group       // for the login to the cloud, which can take as long as the caller waits
	slurms  map[string]*slurm.Client // by the control node's address
	closed  bool                     // connections are no longer kept open
}

// Adapters returns the adapters for the cluster. Without a journal they can only read.
func (s Site) Adapters(log *journal.Journal, logger *slog.Logger) *Adapters {
	return &Adapters{
		Site: s, Journal: log, logger: logger,
		drivers: map[string]Driver{}, slurms: map[string]*slurm.Client{},
	}
}

// Readers is Adapters for commands that only read: they make no file and download nothing.
func (s Site) Readers(log *journal.Journal, logger *slog.Logger) *Adapters {
	a := s.Adapters(log, logger)
	a.reads = true
	return a
}

// Close closes the open connections when the calls over them have ended. Later calls of the adapters use one
// connection each.
func (a *Adapters) Close() {
	a.lock.Lock()
	a.closed = true
	open := slices.Collect(maps.Values(a.slurms))
	a.lock.Unlock()
	for _, client := range open {
		client.Close()
	}
}

// Driver returns the driver of a shard, which runs Terraform or switches machines.
func (a *Adapters) Driver(ctx context.Context, shard string) (Driver, error) {
	if a.Site.provider.shard != nil {
		cloud, err := a.Cloud(ctx)
		if err != nil {
			return nil, err
		}
		return a.Site.provider.shard(cloud, shard), nil
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if d := a.drivers[shard]; d != nil {
		return d, nil
	}
	d, err := a.terraform(ctx, shard)
	if err != nil {
		return nil, err
	}
	a.drivers[shard], a.binary = d, d.Binary()
	return d, nil
}

// Cloud logs in to the cloud, once. Concurrent callers share the result, unless the context of the one that logs in
// has ended. Nobody else waits for them.
func (a *Adapters) Cloud(ctx context.Context) (Cloud, error) {
	for {
		if cloud := a.connected(nil); cloud != nil {
			return cloud, nil
		}
		var own bool
		cloud, err, _ := a.login.Do("", func() (any, error) {
			own = true
			cloud, err := a.Site.cloud(ctx, a.Journal)
			if err != nil {
				return nil, err
			}
			return a.connected(cloud), nil
		})
		switch {
		case err == nil:
			return cloud.(Cloud), nil
		case own, !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}

// connected stores the given cloud, if any, and returns the current one; nil if there is none.
func (a *Adapters) connected(cloud Cloud) Cloud {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.cloud == nil {
		a.cloud = cloud
	}
	return a.cloud
}

// Scheduler returns a client for Slurm on the control node, over one connection.
func (a *Adapters) Scheduler(control reconfigure.Instance) *slurm.Client {
	a.lock.Lock()
	defer a.lock.Unlock()
	client := a.slurms[control.Address]
	if client == nil {
		client = a.Site.scheduler(control, !a.closed)
		a.slurms[control.Address] = client
	}
	return client
}

// Observer returns an observer that asks the sources.
func (a *Adapters) Observer() snapshot.Observer {
	return snapshot.Observer{
		Cluster: a.Site.Cluster,
		State:   a.State,
		States: func(
			ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
				return nil, err
			}
			return a.Scheduler(control).States(ctx, nodes)
		},
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			cloud, err := a.Cloud(ctx)
			if err != nil {
				return nil, err
			}
			return cloud.Servers(ctx, nodeset.NodeSet{})
		},
		Server: func(ctx context.Context, id string) (reconfigure.Server, bool, error) {
			cloud, err := a.Cloud(ctx)
			if err != nil {
				return reconfigure.Server{}, false, err
			}
			return cloud.Server(ctx, id)
		},
		Ports: func(ctx context.Context) (map[string][]reconfigure.Port, error) {
			cloud, err := a.Cloud(ctx)
			if err != nil {
				return nil, err
			}
			return cloud.Ports(ctx)
		},
		Resolve: func(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
			cloud, err := a.Cloud(ctx)
			if err != nil {
				return reconfigure.Resolved{Err: err.Error(), Class: reconfigure.ClassOf(err)}
			}
			return cloud.Resolve(ctx, s)
		},
		Health: func(ctx context.Context) (map[string]reconfigure.Health, error) {
			if a.Journal == nil {
				return map[string]reconfigure.Health{}, nil
			}
			return a.Journal.Health(ctx)
		},
		Events: func(
			ctx context.Context, ids ...reconfigure.RequestID,
		) (map[reconfigure.RequestID][]reconfigure.Event, error) {
			if a.Journal == nil {
				return nil, nil
			}
			return a.Journal.EventsOf(ctx, ids...)
		},
		Lives: func(ctx context.Context) ([]reconfigure.Life, error) {
			if a.Journal == nil {
				return nil, nil
			}
			return a.Journal.Lives(ctx, journal.OpenOnly)
		},
	}
}

// State returns Terraform's state of the shards of the nodes; without nodes, of all shards.
func (a *Adapters) State(ctx context.Context, nodes nodeset.NodeSet) (reconfigure.State, error) {
	desired, known, err := a.Site.NodeMap(a.Journal).Read(ctx)
	if err != nil {
		return reconfigure.State{}, err
	}
	shards := map[string]bool{reconfigure.DefaultShard: true}
	for node, spec := range desired {
		if nodes.Empty() || nodes.Contains(node) {
			shards[spec.Shard] = true
		}
	}
	all := reconfigure.State{
		Desired: map[string]reconfigure.Spec{}, Instances: map[string]reconfigure.Instance{}, Ports: map[string]string{},
	}
	maps.Copy(all.Desired, desired)
	if err := a.Site.addExisting(ctx, all.Instances); err != nil {
		return reconfigure.State{}, err
	}
	err = a.eachShard(ctx, slices.Sorted(maps.Keys(shards)), func(d Driver) (func(), error) {
		state, err := d.StateOf(ctx, desired, known)
		return func() {
			maps.Copy(all.Instances, state.Instances)
			maps.Copy(all.Ports, state.Ports)
		}, err
	})
	if errors.Is(err, terraform.ErrNotInitialized) && !known {
		return all, nil // nothing exists yet
	}
	if err != nil {
		return reconfigure.State{}, err
	}
	return all, nil
}

// eachShard reads the states of shards concurrently: a large cluster has dozens, and each needs a start of Terraform.
// The functions that read returns are called one at a time.
func (a *Adapters) eachShard(
	ctx context.Context, shards []string, read func(Driver) (use func(), err error),
) error {
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, shard := range shards {
		group.Go(func() error {
			d, err := a.Driver(ctx, shard)
			if err != nil {
				return err
			}
			use, err := read(d)
			if err != nil {
				return err
			}
			lock.Lock()
			defer lock.Unlock()
			use()
			return nil
		})
	}
	return group.Wait()
}

// addresses returns the addresses of nodes, from the ports in Terraform's states of all shards.
func (a *Adapters) addresses(ctx context.Context, fresh bool) (map[string]string, error) {
	desired, _, err := a.Site.NodeMap(a.Journal).Read(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	err = a.eachShard(ctx, reconfigure.Shards(desired), func(d Driver) (func(), error) {
		addresses, err := d.Addresses(ctx, fresh)
		return func() { maps.Copy(all, addresses) }, err
	})
	return all, err
}

// Deps returns the dependencies of operations.
func (a *Adapters) Deps(ctx context.Context, recorder *journal.Recorder) (operation.Deps, error) {
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return operation.Deps{}, err
	}
	if _, err := a.Driver(ctx, reconfigure.DefaultShard); err != nil {
		return operation.Deps{}, err
	}
	playbooks, err := a.playbooks(ctx)
	if err != nil {
		return operation.Deps{}, err
	}
	var configurer operation.Configurer = playbooks
	var waiter operation.Waiter = a.waiter(cloud)
	var prepare func(context.Context, reconfigure.Cluster)
	switch c := a.Site.Cluster.Control.Existing; {
	case c == nil || !c.ConfiguredBySite():
		prepare = playbooks.Prepare
	case c.ByImage:
		configurer, waiter = configure.Image{}, configure.Image{}
	case c.Playbook != "":
		configurer = ansible.SitePlaybook{Runner: playbooks, Playbook: c.Playbook}
	default:
		configurer = configure.Command{Argv: c.Command, Dir: a.Site.Dir, Env: Environment(os.Environ()),
			KnownHosts: a.Site.knownHostsFile().Path, Log: appender{a.Site, "configure.log"}}
	}
	var freePorts func(context.Context) (int, error)
	if c, ok := cloud.(interface {
		FreePorts(context.Context) (int, error)
	}); ok {
		freePorts = c.FreePorts
	}
	return operation.Deps{
		Provisioner: func(shard string) operation.Provisioner {
			d, err := a.Driver(ctx, shard)
			if err != nil {
				return unopened{err}
			}
			return revoking{d, a.revokeKeys}
		},
		Cloud:      cloud,
		Quota:      cloud,
		Images:     cloud,
		Cleaner:    playbooks,
		Waiter:     waiter,
		Configurer: configurer,
		Prepare:    prepare,
		Starter:    starter{a.Site},
		Sums:       a.Journal,
		Recorder:   eventsAndEvidence{recorder, a.Journal},
		Health:     a.Journal,
		Addresses:  a.addresses,
		FreePorts:  freePorts,
		Scheduler:  func(control reconfigure.Instance) operation.Scheduler { return a.Scheduler(control) },
		Commenter:  func(control reconfigure.Instance) operation.Commenter { return a.Scheduler(control) },
	}, nil
}

// revokeKeys revokes keys in the file of this host. After an error the next removal retries it.
func (a *Adapters) revokeKeys(ctx context.Context) {
	if err := a.Site.revokeKeys(ctx, a.Journal); err != nil {
		a.logger.WarnContext(ctx, "the keys of nodes without an instance are still authorized", "reason", err.Error())
	}
}

// waiter returns a Waiter for SSH.
func (a *Adapters) waiter(cloud Cloud) *ssh.Waiter {
	return ssh.NewWaiter(ssh.Config{
		Known: a.Site.KnownHosts(a.Journal), Policy: a.Site.Cluster.Settings.HostKeys, Console: cloud.Console,
	})
}

// eventsAndEvidence is the journal in the form that operations use.
type eventsAndEvidence struct {
	*journal.Recorder
	*journal.Journal
}

func (e eventsAndEvidence) Record(events ...reconfigure.Event) { e.Recorder.Record(events...) }

// unopened is a shard whose Terraform could not be opened.
type unopened struct{ err error }

func (u unopened) State(context.Context) (reconfigure.State, error) {
	return reconfigure.State{}, u.err
}
func (u unopened) Preview(context.Context, reconfigure.Plan) (reconfigure.Preview, error) {
	return reconfigure.Preview{}, u.err
}
func (u unopened) Apply(
	context.Context, reconfigure.Preview, operation.Watch, <-chan struct{},
) (reconfigure.Failures, error) {
	return nil, u.err
}
func (u unopened) Adopt(
	context.Context, reconfigure.Plan, map[string]reconfigure.Server,
) (nodeset.NodeSet, reconfigure.Failures, error) {
	return nodeset.NodeSet{}, nil, u.err
}
func (u unopened) ForgetInstances(context.Context, map[string]reconfigure.Spec, nodeset.NodeSet) error {
	return u.err
}
func (u unopened) Discard(reconfigure.Preview) error { return u.err }

func (a *Adapters) terraform(ctx context.Context, shard string) (*terraform.Driver, error) {
	if a.reads && !exists(a.Site.RootModule()) { // a new site folder
		return nil, terraform.ErrNotInitialized
	}
	return terraform.Open(ctx, a.terraformConfig(shard))
}

// terraformConfig returns the configuration of the driver of a shard.
func (a *Adapters) terraformConfig(shard string) terraform.Config {
	return terraform.Config{
		Dir:         a.Site.RootModule(),
		Workspace:   shard,
		Keeper:      a.Site.NodeMap(a.Journal).Keeper,
		PlanDir:     a.Site.StateFile("plans"),
		Module:      a.Site.Provider.Module,
		Variables:   a.Site.Provider.Variables(a.Site.Dir),
		Binary:      a.Site.Cluster.Settings.Terraform,
		Found:       a.binary,
		BinDir:      a.Site.StateFile("bin"),
		Parallelism: a.Site.Cluster.Settings.Parallelism,
		LockTimeout: a.Site.Cluster.Settings.LockTimeout,
		ReadOnly:    a.reads,
		Port: func(ctx context.Context, server string) (string, error) {
			cloud, err := a.Cloud(ctx)
			if err != nil {
				return "", err
			}
			return cloud.Port(ctx, server)
		},
		Environ: Environment(os.Environ()),
		Log:     a.logger,
	}
}

// NodeMap returns the map of nodes, for callers that do not run Terraform.
func (s Site) NodeMap(log *journal.Journal) terraform.NodeMap {
	m := terraform.NodeMap{Dir: s.RootModule()}
	if s.Provider.Existing {
		m.Dir = s.StateFile() // there is no root module
	}
	if log != nil {
		m.Keeper = log
	}
	return m
}

// Adopt imports the data in this host's files that the journal never had.
func (s Site) Adopt(ctx context.Context, log *journal.Journal) error {
	if err := os.MkdirAll(s.NodeMap(log).Dir, 0o755); err != nil { // a new site folder
		return err
	}
	if err := s.identify(ctx, log); err != nil {
		return err
	}
	if err := s.NodeMap(log).Adopt(ctx); err != nil {
		return err
	}
	return s.KnownHosts(log).Adopt(ctx)
}

// RootModule returns the folder of the root module of the declared kind of cloud, in which Terraform runs.
func (s Site) RootModule() string { return s.File("terraform", s.Provider.Name) }

// KnownHosts returns the file of the nodes' host keys, which is updated from the journal. Without a journal the file
// does not change.
func (s Site) KnownHosts(log *journal.Journal) ssh.KnownHosts {
	k := s.knownHostsFile()
	if log != nil {
		k.Keeper = log
	}
	return k
}

// knownHostsFile returns the same file, only for SSH commands.
func (s Site) knownHostsFile() ssh.KnownHosts {
	return ssh.KnownHosts{Path: s.StateFile("known_hosts")}
}

// scheduler returns a client for Slurm on the control node. With keep the connection stays open until the client is
// closed.
func (s Site) scheduler(control reconfigure.Instance, keep bool) *slurm.Client {
	key := s.Cluster.Settings.SlurmKeyFile()
	command := s.knownHostsFile().Command(s.Cluster.ControlUser(), control.Address, key)
	run := func(ctx context.Context, c process.Cmd) error {
		err := Run(ctx, c)
		if err != nil && !exists(key) {
			return fmt.Errorf("this control host has no key for Slurm, %s; `reconfigure %s` makes it: %w", key,
				map[bool]string{true: "attach", false: "deploy"}[s.Cluster.Attached()], err)
		}
		return err
	}
	return slurm.New(slurm.Config{SSH: command, Run: run, Keep: keep, LaunchAtOnce: s.Cluster.LaunchAtOnce})
}

// Run runs a program with the filtered environment of this process.
func Run(ctx context.Context, c process.Cmd) error {
	c.Env = Environment(os.Environ())
	return process.Run(ctx, c)
}

// AnswerWithin is the time limit for a source when a person waits. Slurm's tools take up to a minute to give up.
const AnswerWithin = 20 * time.Second

// Look takes a snapshot for a person. It changes nothing.
func (a *Adapters) Look(ctx context.Context) (snapshot.Snapshot, error) {
	return a.inFull().Observe(ctx, snapshot.Scope{Servers: true, Declared: true})
}

// inFull returns an observer for people: it includes the cloud's faults of servers in ERROR, and its time is limited.
func (a *Adapters) inFull() snapshot.Observer {
	observer := a.Observer()
	observer.Limit = AnswerWithin
	observer.Servers = func(ctx context.Context) (map[string][]reconfigure.Server, error) {
		cloud, err := a.Cloud(ctx)
		if err != nil {
			return nil, err
		}
		return cloud.ServersWithFaults(ctx)
	}
	return observer
}

// appender appends to a log of the worker. It opens, and makes, the file only while it writes: adapters are also
// opened only to read.
type appender struct {
	site Site
	name string
}

func (a appender) Write(text []byte) (int, error) {
	file, err := a.site.Logs().Open(a.name)
	if err != nil {
		return 0, err
	}
	n, err := file.Write(text)
	return n, errors.Join(err, file.Close())
}

// Reconciler returns a reconciler of the cluster. An instance that Terraform does not know counts from the age minAge
// on.
func (a *Adapters) Reconciler(minAge time.Duration) reconcile.Reconciler {
	observer := a.inFull()
	return reconcile.Reconciler{
		Cluster: a.Site.Cluster, Journal: a.Journal, MinAge: minAge, Commands: a.Site.Provider.Commands,
		Observe: func(ctx context.Context) (snapshot.Snapshot, error) {
			return observer.Observe(ctx, snapshot.Scope{Servers: true, Ports: true, Declared: true})
		},
		Cloud:     func(ctx context.Context) (reconcile.Cloud, error) { return a.Cloud(ctx) },
		Scheduler: func(control reconfigure.Instance) reconcile.Scheduler { return a.Scheduler(control) },
	}
}
