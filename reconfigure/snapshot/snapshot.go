// Package snapshot is what is known of a cluster at one moment: what Terraform was told and has in its state, what
// the cloud and Slurm say, and what the journal knows of the node groups. The planner, the reports and the comparison
// of sources all read this one type. To take a snapshot changes nothing.
package snapshot

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Source is who says something of the nodes.
type Source string

// The sources.
const (
	Cloud     Source = "cloud"
	Terraform Source = "terraform"
	Slurm     Source = "slurm"
)

// Words is the source at the beginning of a sentence.
func (s Source) Words() string {
	return map[Source]string{Cloud: "The cloud", Terraform: "Terraform", Slurm: "Slurm"}[s]
}

// Snapshot is what the sources said. Nothing may be concluded from the silence of a source that is unreachable.
type Snapshot struct {
	Time      time.Time
	Desired   map[string]reconfigure.Spec                 // what Terraform was told, as far as it was carried out
	Instances map[string]reconfigure.Instance             // by node, from Terraform's state
	States    map[string]reconfigure.NodeState            // by node, from Slurm
	Servers   map[string][]reconfigure.Server             // by node, from the cloud, where they were asked for
	Sources   map[reconfigure.Source]reconfigure.Resolved // what declared names mean now, where that was asked for
	Health    map[string]reconfigure.Health               // of the node groups with failures, by name
	Missing   map[Source]string                           // why a source is unreachable
}

// Answers reports whether a source is reachable. One that was not asked counts as reachable.
func (s Snapshot) Answers(source Source) bool {
	_, missing := s.Missing[source]
	return !missing
}

// Asked reports whether a source was asked, and has answered.
func (s Snapshot) Asked(source Source) bool {
	asked := map[Source]bool{Cloud: s.Servers != nil, Terraform: s.Instances != nil, Slurm: s.States != nil}[source]
	return asked && s.Answers(source)
}

// Unreachable is a source that does not answer.
type Unreachable struct {
	Source Source `json:"source"`
	Reason string `json:"reason"`
}

// Unreachable is the sources that do not answer, in a fixed order.
func (s Snapshot) Unreachable() []Unreachable {
	all := []Unreachable{}
	for _, source := range []Source{Cloud, Terraform, Slurm} {
		if reason, missing := s.Missing[source]; missing {
			all = append(all, Unreachable{source, reason})
		}
	}
	return all
}

// Shard is the shard that has a node's resources: that of its entry, or of what a removal that was cut short has
// left. It is reconfigure.DefaultShard for a node that has neither.
func (s Snapshot) Shard(node string) string {
	if spec, ok := s.Desired[node]; ok {
		return spec.Shard
	}
	return s.Instances[node].Made.Shard
}

// Scope is what a snapshot is wanted for. To ask for less makes a snapshot of a large cluster cheap.
type Scope struct {
	// Nodes is those whose instances and states must be known; empty: all of them. The control node's instance is always
	// known.
	Nodes nodeset.NodeSet
	// Sources names what is to be resolved, once Slurm's states are known; nil: nothing.
	Sources func(states map[string]reconfigure.NodeState) []reconfigure.Source
	// Declared resolves what all nodes are declared to be made of, without waiting for Slurm.
	Declared bool
	// Servers asks for the cloud's own list of instances.
	Servers bool
}

// Observer asks the sources. Each function may be called from another goroutine than the others.
type Observer struct {
	Cluster reconfigure.Cluster
	// State is Terraform's, of the nodes and the control node at least; without nodes it is of all.
	State func(ctx context.Context, nodes nodeset.NodeSet) (reconfigure.State, error)
	// States asks the Slurm of the control node for the nodes at least; without nodes it is for all.
	States func(
		ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
	) (map[string]reconfigure.NodeState, error)
	// Servers and Resolve ask the cloud.
	Servers func(ctx context.Context) (map[string][]reconfigure.Server, error)
	Resolve func(ctx context.Context, s reconfigure.Source) reconfigure.Resolved
	// Health is of the node groups with failures. Nil: there is no journal yet.
	Health func(ctx context.Context) (map[string]reconfigure.Health, error)
	// Limit is how long each source is waited for; zero: as long as ctx lasts. Slurm's commands take up to a minute
	// to give up, for which no person wants to wait.
	Limit time.Duration
}

// Observe asks all sources at once. A source that does not answer is Missing; the error is that of a ctx that has
// ended, or of the journal.
func (o Observer) Observe(ctx context.Context, scope Scope) (Snapshot, error) {
	s := Snapshot{Time: time.Now(), Missing: map[Source]string{}}
	if o.Health != nil {
		var err error
		if s.Health, err = o.Health(ctx); err != nil {
			return Snapshot{}, err
		}
	}
	var (
		wait     sync.WaitGroup
		servers  map[string][]reconfigure.Server
		cloud    error
		declared map[reconfigure.Source]reconfigure.Resolved
	)
	if scope.Servers {
		wait.Go(func() { servers, cloud = limited(ctx, o.Limit, o.Servers) })
	}
	if scope.Declared {
		wait.Go(func() { declared = o.resolve(ctx, DeclaredSources(o.Cluster)) })
	}
	o.observeSlurm(ctx, scope, &s)
	if scope.Sources != nil {
		s.Sources = o.resolve(ctx, scope.Sources(s.States))
	}
	wait.Wait()
	if s.Servers = servers; servers == nil && scope.Servers && cloud == nil {
		s.Servers = map[string][]reconfigure.Server{} // asked, and there is none
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

// observeSlurm asks Terraform, which knows where the control node is, and then Slurm.
func (o Observer) observeSlurm(ctx context.Context, scope Scope, s *Snapshot) {
	state, err := limited(ctx, o.Limit, func(ctx context.Context) (reconfigure.State, error) {
		return o.State(ctx, scope.Nodes)
	})
	if err != nil {
		s.Missing[Terraform] = err.Error()
		s.Missing[Slurm] = "not asked, since Terraform's state does not say where the control node is"
		return
	}
	if s.Instances, s.Desired = state.Instances, carriedOut(state); s.Instances == nil {
		s.Instances = map[string]reconfigure.Instance{} // asked, and there is none
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

// carriedOut is the map of nodes as far as it came true. It is written before Terraform is started; where Terraform
// was killed after that, an instance is still what it was. One that was to go, and leave its port, is not wanted
// again for that.
func carriedOut(state reconfigure.State) map[string]reconfigure.Spec {
	actual := maps.Clone(state.Desired)
	for node, spec := range state.Desired {
		instance := state.Instances[node]
		made := instance.Made
		known := made.Group != "" && made.ImageID != "" && made.FlavorID != "" && made.NetworkID != ""
		if known && !instance.Tainted && spec.HasInstance() {
			made.Shard = spec.Shard
			actual[node] = made
		}
	}
	return actual
}
