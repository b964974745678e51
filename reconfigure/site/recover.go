package site

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// sharing is a cloud that finds the shared resources of the root module.
type sharing interface {
	Shared(ctx context.Context, planned []reconfigure.SharedResource) (map[string]string, error)
}

// Recoverable returns an error if this site cannot be recovered from the cloud alone.
func (s Site) Recoverable() error {
	if s.Provider.Existing || s.Provider.Module.Finish == nil {
		return fmt.Errorf("a cluster with provider %s cannot be recovered from the cloud alone: restore a backup",
			s.Provider.Name)
	}
	if _, err := os.Stat(s.Cluster.PrivateKeyFile); err != nil {
		return fmt.Errorf("the key that the nodes accept is needed, and nothing else has it: put private_key_file back: %w",
			err)
	}
	return nil
}

// StatesLeft returns a file of a state or of a map of nodes in the cluster directory; empty if there is none.
func (s Site) StatesLeft() (string, error) {
	except := map[string]bool{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		except[s.StateFile(journal.FileName+suffix)] = true
	}
	return HasState(s.Dir, s.Cluster.Settings.StateDir, except)
}

// Namesakes returns the cloud's instances with the cluster's name, by the cluster's id.
func (s Site) Namesakes(ctx context.Context) (map[string][]reconfigure.Server, error) {
	cloud, err := s.provider.open(ctx, s.access(reconfigure.Identity{}))
	if err != nil {
		return nil, err
	}
	return cloud.Namesakes(ctx)
}

// InCloud returns the cluster's instances and ports, by node.
func (a *Adapters) InCloud(ctx context.Context) (
	servers map[string][]reconfigure.Server, ports map[string][]reconfigure.Port, err error,
) {
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return nil, nil, err
	}
	if servers, err = cloud.Servers(ctx, nodeset.NodeSet{}); err != nil {
		return nil, nil, err
	}
	ports, err = cloud.Ports(ctx)
	return servers, ports, err
}

// RecoverShard imports what exists of a shard into its state, also the shared resources; see terraform.Driver.Recover.
func (a *Adapters) RecoverShard(
	ctx context.Context, shard string, nodes map[string]reconfigure.Spec, is terraform.Existing,
) (terraform.Recovered, error) {
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return terraform.Recovered{}, err
	}
	if shares, ok := cloud.(sharing); ok {
		is.Shared = shares.Shared
	}
	return a.ImportNodes(ctx, shard, nodes, is)
}

// ImportNodes imports the nodes of a shard that exist into its state; see terraform.Driver.Recover.
func (a *Adapters) ImportNodes(
	ctx context.Context, shard string, nodes map[string]reconfigure.Spec, is terraform.Existing,
) (terraform.Recovered, error) {
	driver, err := a.stateful(ctx, shard)
	if err != nil {
		return terraform.Recovered{}, err
	}
	return driver.Recover(ctx, nodes, is)
}

// ForgetNodes removes nodes from a shard's state and map; see terraform.Driver.Forget.
func (a *Adapters) ForgetNodes(
	ctx context.Context, shard string, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet,
) error {
	driver, err := a.stateful(ctx, shard)
	if err != nil {
		return err
	}
	return driver.Forget(ctx, desired, nodes)
}

// stateful returns the driver of a shard of a cloud that has states.
func (a *Adapters) stateful(ctx context.Context, shard string) (*terraform.Driver, error) {
	d, err := a.Driver(ctx, shard)
	if err != nil {
		return nil, err
	}
	driver, ok := d.(*terraform.Driver)
	if !ok {
		return nil, fmt.Errorf("provider %s has no states", a.Site.Provider.Name)
	}
	return driver, nil
}

// LearnHostKeys learns the host keys of running instances, as declared: a key counts if it is in the instance's console
// log and the instance proves that it has it or, with host_keys: accept-new, if the instance proves that it has it. It
// returns why the keys of other instances could not be learned.
func (a *Adapters) LearnHostKeys(ctx context.Context, instances []reconfigure.Instance) (reconfigure.Failures, error) {
	cloud, err := a.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	waiter := a.waiter(cloud)
	limited, stop := context.WithTimeout(ctx, a.Site.Cluster.Settings.BootTimeout)
	defer stop()
	var (
		lock   sync.Mutex
		group  errgroup.Group
		failed = reconfigure.Failures{}
	)
	for _, i := range instances {
		group.Go(func() error {
			if err := waiter.Wait(limited, i, false); err != nil {
				lock.Lock()
				defer lock.Unlock()
				failed[i.Node] = err
			}
			return nil
		})
	}
	_ = group.Wait() // there are no errors
	return failed, ctx.Err()
}

// ShardsOf returns the shards of the map of nodes in the journal and of another one, the default one first.
func (s Site) ShardsOf(ctx context.Context, log *journal.Journal, nodes map[string]reconfigure.Spec) ([]string, error) {
	kept, _, err := log.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	shards := append(reconfigure.Shards(kept), reconfigure.Shards(nodes)...)
	slices.Sort(shards)
	return slices.Compact(shards), nil
}
