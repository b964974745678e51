package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// refuse checks again, as late as possible, which nodes must leave the run: those with an instance that Terraform does
// not know, those without room in the quota, and those with a job to lose. The quota is read after unknown instances
// are removed, which frees some of it. The jobs are checked last, since all of that takes time.
func (t *run) refuse(ctx context.Context, plan reconfigure.Plan, calls []*call) reconfigure.Failures {
	refused := t.clear(ctx, plan)
	if len(refused) == 0 {
		if refused = t.overQuota(ctx, plan, calls); len(refused) > 0 {
			return refused
		}
		refused = t.guardAll(ctx, plan)
	}
	for _, c := range calls {
		if c.In.target() != nil && refused[c.In.node()] != nil {
			c.In.tell(LeftAlone{})
		}
	}
	return refused
}

// guardAll returns the nodes whose instance would be lost while a job runs, or may run, on it.
func (t *run) guardAll(ctx context.Context, plan reconfigure.Plan) reconfigure.Failures {
	endangered := plan.Where(func(c reconfigure.Change) bool {
		instance, there := t.state.Instances[c.Node]
		ends := c.Action.Provisions() && c.Action != reconfigure.Start
		return ends && there && instance.ID != "" && !c.Force && !t.forgets(c.Node)
	})
	if endangered.Empty() {
		return nil
	}
	states, err := t.States(ctx, endangered)
	busy := reconfigure.Failures{}
	for node := range endangered.All() {
		instance := t.state.Instances[node]
		instance.Tainted = instance.Tainted && !t.runs(instance)
		state := states[node]
		if t.isGone(instance) && !state.Running() {
			state = reconfigure.NodeState{} // a missing instance can get no job, even if idle in Slurm
		}
		if reason := InUse(instance, state, err); reason != nil {
			busy[node] = reason
		}
	}
	return busy
}

// isGone reports whether the cloud no longer has an instance.
func (t *run) isGone(i reconfigure.Instance) bool {
	same := func(s reconfigure.Server) bool { return s.ID == i.ID }
	return t.unseen == nil && !slices.ContainsFunc(t.servers[i.Node], same)
}

// runs reports whether the cloud has, or may have, an instance as running. Slurmd may have been started on it before
// Terraform was interrupted or failed.
func (t *run) runs(i reconfigure.Instance) bool {
	return t.unseen != nil || slices.ContainsFunc(t.servers[i.Node], func(s reconfigure.Server) bool {
		return s.ID == i.ID && !s.Failed() && s.Status != reconfigure.ServerBuilding
	})
}

// clear deletes instances that Terraform does not know, of nodes that the run makes or removes: otherwise there would
// be a second instance of the node. It returns the nodes whose unknown instance stays, with the reason. While the cloud
// cannot be asked, no instance may be made, and none may be removed that Terraform was told to make and has not
// finished: nothing would be left that leads to an instance that the state does not know.
func (t *run) clear(ctx context.Context, plan reconfigure.Plan) reconfigure.Failures {
	making, removing := plan.Nodes(reconfigure.Create, reconfigure.Replace, reconfigure.Start),
		plan.Nodes(reconfigure.Remove)
	begun := removing.Where(func(node string) bool {
		i, there := t.state.Instances[node]
		return i.ID == "" && (there || t.state.Desired[node].HasInstance())
	})
	if t.unseen != nil {
		err := fmt.Errorf("it is unknown whether there is an instance of it already: %w", t.unseen)
		return all(making.Union(begun), err)
	}
	unknown := t.unknown(making.Union(removing))
	if len(unknown) == 0 {
		return nil
	}
	states, unreachable := t.States(ctx, nodeset.Collect(maps.Keys(unknown)))
	stay := reconfigure.Failures{}
	var (
		lock  sync.Mutex
		group errgroup.Group
	)
	group.SetLimit(20) // a cloud's API does not serve thousands of calls at once
	for node, servers := range unknown {
		change, _ := plan.Of(node)
		if err := t.protected(node, servers, states[node], unreachable); err != nil && !change.Force {
			stay[node] = reconfigure.Classify(reconfigure.ClassRefused,
				fmt.Errorf("left alone: there is instance %s of it, which Terraform does not know, and %w", ids(servers), err))
			continue
		}
		group.Go(func() error {
			if err := t.delete(ctx, node, servers); err != nil {
				lock.Lock()
				defer lock.Unlock()
				stay[node] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	return stay
}

// unknown returns the servers of nodes that are missing in Terraform's state.
func (t *run) unknown(nodes nodeset.NodeSet) map[string][]reconfigure.Server {
	found := map[string][]reconfigure.Server{}
	for node := range nodes.All() {
		known := t.state.Instances[node].ID
		strange := slices.DeleteFunc(slices.Clone(t.servers[node]), func(s reconfigure.Server) bool { return s.ID == known })
		if len(strange) > 0 {
			found[node] = strange
		}
	}
	return found
}

// delete waits only as long as for a straggler, since the whole run waits. When the node is retried, a server that
// still exists is checked again.
func (t *run) delete(ctx context.Context, node string, servers []reconfigure.Server) error {
	stays := reconfigure.Classify(reconfigure.ClassUnknown, ErrStays)
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timing.Straggler, stays)
	defer cancel()
	for _, s := range servers {
		// Later than the creation of any instance, even with wrong clocks: only the holder of the lease makes
		// instances.
		anyAge := time.Now().AddDate(1, 0, 0)
		if err := t.deps.Cloud.RemoveServer(ctx, s.ID, node, anyAge); err != nil {
			return fmt.Errorf("there is instance %s of it, which Terraform does not know and which is in the way: %w", s.ID, err)
		}
	}
	return nil
}

func ids(servers []reconfigure.Server) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.ID
	}
	return strings.Join(all, ", ")
}

// protected returns why an unknown instance must not be deleted. If Terraform's state has a part of the node, the
// instance is the one that Terraform was making, and it is not in use, unless it runs and Slurm cannot be asked. If the
// state has no part of the node, the state itself may have been lost, together with a whole cluster that is in use.
func (t *run) protected(
	node string, servers []reconfigure.Server, state reconfigure.NodeState, unreachable error,
) error {
	known, there := t.state.Instances[node]
	cluster, _ := t.Using()
	unused := unreachable == nil || node == cluster.Control.Name ||
		!slices.ContainsFunc(servers, func(s reconfigure.Server) bool { return t.runs(instanceOf(s, reconfigure.Spec{})) })
	const hand = "if it is worth nothing, delete it by hand; if Terraform's state was lost, bring that back"
	switch {
	case state.Running() || state.Usable():
		return errors.New("it is in use by Slurm: " + hand)
	case there && known.ID == "" && unused:
		return nil
	case node == cluster.Control.Name:
		return errors.New("all of Slurm's state may be on it: " + hand)
	case unreachable != nil:
		return fmt.Errorf("it is unknown whether a job runs on it, as Slurm does not answer: %w", unreachable)
	}
	return nil
}

// all returns the same failure for each of the nodes.
func all(nodes nodeset.NodeSet, err error) reconfigure.Failures {
	failures := reconfigure.Failures{}
	for node := range nodes.All() {
		failures[node] = err
	}
	return failures
}

// InUse returns why an instance must not be ended now, or nil. A tainted instance hardly ever has a job, so it may be
// ended while Slurm is unreachable. But an administrator may have tainted one that is in use.
func InUse(instance reconfigure.Instance, state reconfigure.NodeState, unreachable error) error {
	var busy error
	switch {
	case unreachable != nil && instance.Tainted:
	case unreachable != nil:
		busy = fmt.Errorf("left alone: Slurm does not answer, so it is unknown whether a job runs on it: %w", unreachable)
	case state.Running():
		busy = errors.New("left alone: a job runs on it")
	case state.Usable():
		busy = errors.New("left alone: Slurm has it in use, and may start a job on it at any moment")
	}
	return reconfigure.Classify(reconfigure.ClassRefused, busy)
}
