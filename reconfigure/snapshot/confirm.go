package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// confirmAtOnce is the number of instances that are requested by id at the same time.
const confirmAtOnce = 10

// Confirm adds to the answer of a cloud's list the known instances, by node, that the list lacks although they exist. A
// list may lack existing instances, so Confirm asks for each missing instance by its id. An instance that the cloud
// does not find by id is gone; Confirm also returns the ids of these. An error means that it is unknown whether an
// instance exists; the call may be retried.
func Confirm(
	ctx context.Context, list map[string][]reconfigure.Server, known map[string]string,
	ask func(ctx context.Context, id string) (reconfigure.Server, bool, error),
) (all map[string][]reconfigure.Server, gone []string, err error) {
	var (
		lock  sync.Mutex
		group errgroup.Group
	)
	group.SetLimit(confirmAtOnce)
	all = maps.Clone(list)
	if all == nil {
		all = map[string][]reconfigure.Server{}
	}
	for node, id := range known {
		listed := func(s reconfigure.Server) bool { return s.ID == id }
		if id == "" || slices.ContainsFunc(list[node], listed) {
			continue
		}
		group.Go(func() error {
			s, there, err := ask(ctx, id)
			if err != nil {
				return fmt.Errorf("the cloud's list lacks instance %s of %s, and it is unknown whether it exists: %w",
					id, node, err)
			}
			lock.Lock()
			defer lock.Unlock()
			if !there {
				gone = append(gone, id)
				return nil
			}
			all[node] = append(slices.Clone(list[node]), s)
			reconfigure.OldestFirst(all[node])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return all, gone, nil
}

// Divide divides the servers of nodes into their instances and those that are set aside, which are only removed.
func Divide(servers map[string][]reconfigure.Server) (instances, aside map[string][]reconfigure.Server) {
	kept := func(s reconfigure.Server) bool { return s.Aside }
	instances, aside = maps.Clone(servers), map[string][]reconfigure.Server{}
	for node, all := range servers {
		if !slices.ContainsFunc(all, kept) {
			continue
		}
		delete(instances, node)
		for _, s := range all {
			of := instances
			if s.Aside {
				of = aside
			}
			of[node] = append(of[node], s)
		}
	}
	return instances, aside
}
