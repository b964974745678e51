// Package snapshot has the known state of a cluster at one moment: Terraform's map and state, the answers of the
// cloud and of Slurm, and the journal's data about the node groups. The planner, the reports and the comparison of
// sources all read this one type. Taking a snapshot changes nothing.
package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// System is a system that is asked about the nodes.
type System string

// The sources.
const (
	Cloud     System = "cloud"
	Terraform System = "terraform"
	Slurm     System = "slurm"
)

// Words returns the name of the source for the beginning of a sentence.
func (s System) Words() string {
	return map[System]string{Cloud: "The cloud", Terraform: "Terraform", Slurm: "Slurm"}[s]
}

// Snapshot has the answers of the sources. A missing answer of a source does not permit conclusions.
type Snapshot struct {
	Time       time.Time
	Desired    map[string]reconfigure.Spec                 // Terraform's map, as far as it was carried out
	Unmade     nodeset.NodeSet                             // nodes whose entry in Terraform's map was not carried out
	Instances  map[string]reconfigure.Instance             // by node, from Terraform's state; see asMade
	States     map[string]reconfigure.NodeState            // by node, from Slurm
	Servers    map[string][]reconfigure.Server             // by node, from the cloud, if asked for
	Aside      map[string][]reconfigure.Server             // those that are set aside, likewise
	StatePorts map[string]string                           // ids of the nodes' ports in Terraform's state, by node
	Ports      map[string][]reconfigure.Port               // by node, from the cloud, if asked for
	Sources    map[reconfigure.Source]reconfigure.Resolved // the current ids of declared names, if asked for
	Health     map[string]reconfigure.Health               // of the node groups with failures, by name
	Lives      map[string]reconfigure.Life                 // of the nodes' instances, if their age or Reached matters
	UnderWay   nodeset.NodeSet                             // nodes with operations in progress
	// Reached has the last phases of earlier operations for requests, by node, if asked for.
	Reached map[reconfigure.RequestID]map[string]reconfigure.Phase
	Missing map[System]string // why a source is unreachable
	// Conf is the declared configuration of Slurm, compared with the running one, if asked for.
	Conf *reconfigure.SlurmConf
}

// Answers reports whether a source is reachable. A source that was not asked counts as reachable.
func (s Snapshot) Answers(source System) bool {
	_, missing := s.Missing[source]
	return !missing
}

// Asked reports whether a source was asked, and has answered.
func (s Snapshot) Asked(source System) bool {
	asked := map[System]bool{Cloud: s.Servers != nil, Terraform: s.Instances != nil, Slurm: s.States != nil}[source]
	return asked && s.Answers(source)
}

// Unreachable is a source that does not answer.
type Unreachable struct {
	Source System `json:"source"`
	Reason string `json:"reason"`
}

// Unreachable lists the sources that do not answer, in a fixed order.
func (s Snapshot) Unreachable() []Unreachable {
	all := []Unreachable{}
	for _, source := range []System{Cloud, Terraform, Slurm} {
		if reason, missing := s.Missing[source]; missing {
			all = append(all, Unreachable{source, reason})
		}
	}
	return all
}

// Shard returns the shard that has a node's resources: that of its entry in the map, or of the rest of an interrupted
// removal. It is reconfigure.DefaultShard for a node that has neither.
func (s Snapshot) Shard(node string) string {
	if spec, ok := s.Desired[node]; ok {
		return spec.Shard
	}
	return s.Instances[node].Made.Shard
}

// Scope limits what a snapshot asks for. A small scope makes the snapshot of a large cluster cheap.
type Scope struct {
	// Nodes are the nodes whose instances and states must be known; empty means all. The control node's instance is
	// always known.
	Nodes nodeset.NodeSet
	// Sources returns what must be resolved, when Slurm's states are known; nil means nothing.
	Sources func(states map[string]reconfigure.NodeState) []reconfigure.Source
	// Declared resolves the declared sources of all nodes, without waiting for Slurm.
	Declared bool
	// Servers asks for the cloud's own list of instances.
	Servers bool
	// Ports asks for the cloud's own list of ports.
	Ports bool
	// Requests are those for which Reached and the lives are read from the journal.
	Requests []reconfigure.RequestID
	// Lives asks the journal for the lives.
	Lives bool
}

// Observer asks the sources. Its functions are called from several goroutines.
type Observer struct {
	Cluster reconfigure.Cluster
	// State reads Terraform's state, at least of the nodes and the control node; without nodes, of all nodes.
	State func(ctx context.Context, nodes nodeset.NodeSet) (reconfigure.State, error)
	// States asks Slurm on the control node, at least for the nodes; without nodes, for all nodes.
	States func(
		ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
	) (map[string]reconfigure.NodeState, error)
	// Servers, Server, Ports and Resolve ask the cloud. Server returns an instance by its id; false if there is none.
	Servers func(ctx context.Context) (map[string][]reconfigure.Server, error)
	Server  func(ctx context.Context, id string) (reconfigure.Server, bool, error)
	Ports   func(ctx context.Context) (map[string][]reconfigure.Port, error)
	Resolve func(ctx context.Context, s reconfigure.Source) reconfigure.Resolved
	// Health reads the health of the node groups with failures. Nil: there is no journal yet.
	Health func(ctx context.Context) (map[string]reconfigure.Health, error)
	// Lives reads the lives of existing instances from the journal, in the order of their creation. It is called for
	// Scope.Requests, and with the cloud's list of instances if a group has a maximum age or an interval of its health
	// checks. Nil: there is no journal yet.
	Lives func(ctx context.Context) ([]reconfigure.Life, error)
	// Events reads the events of requests, each in its order. Nil: there is no journal yet.
	Events func(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
	// Limit is the time limit for each source; zero: only ctx limits the wait. Slurm's commands take up to a minute
	// to give up, which is too long for a person.
	Limit time.Duration
}

// Observe asks all sources at the same time. A source that does not answer is in Missing. The error is the journal's,
// or that of an ended ctx.
func (o Observer) Observe(ctx context.Context, scope Scope) (Snapshot, error) {
	s := Snapshot{Time: time.Now(), Missing: map[System]string{}}
	if o.Health != nil {
		var err error
		if s.Health, err = o.Health(ctx); err != nil {
			return Snapshot{}, err
		}
	}
	if o.Lives != nil && (scope.Lives || len(scope.Requests) > 0 || scope.Servers && readsLives(o.Cluster)) {
		lives, err := o.Lives(ctx)
		if err != nil {
			return Snapshot{}, err
		}
		s.Lives = byNode(lives)
	}
	if o.Events != nil && len(scope.Requests) > 0 {
		events, err := o.Events(ctx, scope.Requests...)
		if err != nil {
			return Snapshot{}, err
		}
		s.Reached = reached(events)
	}
	var (
		wait     sync.WaitGroup
		servers  map[string][]reconfigure.Server
		ports    map[string][]reconfigure.Port
		cloud    error
		noPorts  error
		declared map[reconfigure.Source]reconfigure.Resolved
	)
	if scope.Servers {
		wait.Go(func() { servers, cloud = limited(ctx, o.Limit, o.Servers) })
	}
	if scope.Ports {
		wait.Go(func() { ports, noPorts = limited(ctx, o.Limit, o.Ports) })
	}
	if scope.Declared {
		wait.Go(func() { declared = o.resolve(ctx, DeclaredSources(o.Cluster)) })
	}
	o.observeSlurm(ctx, scope, &s)
	if scope.Sources != nil {
		s.Sources = o.resolve(ctx, scope.Sources(s.States))
	}
	wait.Wait()
	if scope.Servers && cloud == nil {
		s.Servers, cloud = limited(ctx, o.Limit, func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			all, _, err := Confirm(ctx, servers, o.idsOf(s.Instances), o.Server)
			return all, err
		})
		s.Servers, s.Aside = Divide(s.Servers)
	}
	if s.Ports = ports; cloud == nil {
		cloud = noPorts
	}
	if cloud != nil {
		s.Missing[Cloud] = cloud.Error()
	}
	if s.Sources == nil {
		s.Sources = declared
	} else {
		maps.Copy(s.Sources, declared)
	}
	return s, context.Cause(ctx)
}

// idsOf returns the ids of instances by node. The cloud does not have a control node that the site runs.
func (o Observer) idsOf(instances map[string]reconfigure.Instance) map[string]string {
	ids := make(map[string]string, len(instances))
	for node, i := range instances {
		if i.ID != reconfigure.ExistingID {
			ids[node] = i.ID
		}
	}
	return ids
}

// limited asks a source, and gives up after the limit.
func limited[T any](ctx context.Context, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
		defer cancel()
	}
	answer, err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// observeSlurm asks Terraform, which knows the control node's address, and then Slurm.
func (o Observer) observeSlurm(ctx context.Context, scope Scope, s *Snapshot) {
	state, err := limited(ctx, o.Limit, func(ctx context.Context) (reconfigure.State, error) {
		return o.State(ctx, scope.Nodes)
	})
	if err != nil {
		s.Missing[Terraform] = err.Error()
		s.Missing[Slurm] = "not asked, since Terraform's state does not have the control node's address"
		return
	}
	s.StatePorts = state.Ports
	state.Instances = o.asMade(ctx, state, scope.Nodes)
	s.Desired, s.Unmade = carriedOut(state)
	if s.Instances = state.Instances; s.Instances == nil {
		s.Instances = map[string]reconfigure.Instance{} // State was asked, and there is none
	}
	control, there := state.Instances[o.Cluster.Control.Name]
	if !there || control.Address == "" {
		s.Missing[Slurm] = "there is no control node yet: `reconfigure deploy` makes it"
		return
	}
	s.States, err = limited(ctx, o.Limit, func(ctx context.Context) (map[string]reconfigure.NodeState, error) {
		return o.States(ctx, control, scope.Nodes)
	})
	if err != nil {
		s.Missing[Slurm] = err.Error()
	}
}

func (o Observer) resolve(
	ctx context.Context,
	sources []reconfigure.Source,
) map[reconfigure.Source]reconfigure.Resolved {
	var (
		wait     sync.WaitGroup
		lock     sync.Mutex
		resolved = map[reconfigure.Source]reconfigure.Resolved{}
	)
	for _, source := range sources {
		wait.Go(func() {
			answer, _ := limited(ctx, o.Limit, func(ctx context.Context) (reconfigure.Resolved, error) {
				return o.Resolve(ctx, source), nil
			})
			lock.Lock()
			defer lock.Unlock()
			resolved[source] = answer
		})
	}
	wait.Wait()
	return resolved
}

// asMade returns the instances of the state with the image and the flavor that the cloud has. It asks the cloud only
// for instances that differ from their entry in the map: Terraform may have been killed after it had changed one and
// before it wrote that. Where the cloud does not answer, or still changes the instance, the state's values stay.
func (o Observer) asMade(
	ctx context.Context, state reconfigure.State, nodes nodeset.NodeSet,
) map[string]reconfigure.Instance {
	_, unmade := carriedOut(state)
	ids := map[string]string{}
	for node := range unmade.All() {
		i := state.Instances[node]
		if (nodes.Empty() || nodes.Contains(node)) && len(Differences(i.Made, state.Desired[node])) > 0 {
			ids[node] = i.ID
		}
	}
	if len(ids) == 0 {
		return state.Instances
	}
	servers, err := limited(ctx, o.Limit, func(ctx context.Context) (map[string][]reconfigure.Server, error) {
		found, _, err := Confirm(ctx, nil, ids, o.Server)
		return found, err
	})
	if err != nil {
		return state.Instances
	}
	all := maps.Clone(state.Instances)
	for node, found := range servers {
		instance, server := all[node], found[0]
		if server.Active() {
			instance.Made.ImageID = cmp.Or(server.ImageID, instance.Made.ImageID)
			instance.Made.FlavorID = cmp.Or(server.FlavorID, instance.Made.FlavorID)
			all[node] = instance
		}
	}
	return all
}

// carriedOut returns the map of nodes as it was carried out, with the real properties of each instance, and the nodes
// whose entries differ from that. The map is written before Terraform starts, so an instance may still be the old one
// if Terraform was killed after that. An entry that keeps only a port stays as it is, even if its instance still
// exists.
func carriedOut(state reconfigure.State) (actual map[string]reconfigure.Spec, unmade nodeset.NodeSet) {
	actual = maps.Clone(state.Desired)
	var others []string
	for node, spec := range state.Desired {
		instance := state.Instances[node]
		made := instance.Made
		known := made.Group != "" && made.ImageID != "" && made.FlavorID != "" && made.NetworkID != ""
		if known && !instance.Tainted && spec.HasInstance() {
			// An instance in the state does not have them.
			made.Shard, made.Placement, made.SecurityGroups = spec.Shard, spec.Placement, spec.SecurityGroups
			if actual[node] = made; made != spec {
				others = append(others, node)
			}
		}
	}
	return actual, nodeset.Of(others...)
}
