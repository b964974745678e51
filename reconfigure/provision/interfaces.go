package provision

import (
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Watch gets the messages of a tool about a node; an empty node stands for shared resources. It must not block.
type Watch = func(node, message string)

// Terraform makes and removes instances in one shard. It has one user at a time.
type Terraform interface {
	// State returns this shard's map of nodes, and the instances in Terraform's state.
	State(ctx context.Context) (reconfigure.State, error)
	// Preview MUST NOT change the cloud or the map of nodes. It returns a *reconfigure.Refusal if Terraform would make
	// an unrequested change, and a *reconfigure.Unplannable if single nodes cannot be planned.
	Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error)
	// Apply MUST carry out exactly that preview, and tell watch when the first change begins. When interrupt is
	// closed it ends soon and gracefully; the failure of an interrupted change is reconfigure.ErrInterrupted, and
	// reconfigure.ErrUntried too if it was not begun. An error means that there are no results by node: what
	// happened is unknown.
	Apply(ctx context.Context, p reconfigure.Preview, watch Watch, interrupt <-chan struct{}) (reconfigure.Failures, error)
	// Adopt adds servers to the state as the finished instances of the plan's nodes, in place of tainted entries
	// and of missing ones. An empty plan of Terraform must prove each. Without a proof, an entry MUST stay
	// unchanged, and the node is in the failures.
	Adopt(
		ctx context.Context, p reconfigure.Plan, servers map[string]reconfigure.Server,
	) (nodeset.NodeSet, reconfigure.Failures, error)
	// ForgetInstances removes the instances of nodes, but not their ports, from the state; desired is the map of nodes
	// afterwards. Nothing in the cloud changes. It may be repeated, also after a kill.
	ForgetInstances(ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet) error
	// Discard removes the saved plan of a Preview that is not applied.
	Discard(p reconfigure.Preview) error
}

// Cloud is the part of the cloud's API that runs use.
type Cloud interface {
	// Fault returns the cloud's message about a server in ERROR; empty if there is none.
	Fault(ctx context.Context, id string) (reconfigure.Fault, error)
	// RemoveServer returns when the instance is removed; an absent instance is success. It MUST NOT remove an instance of
	// another cluster, with another name, or created after the time before.
	RemoveServer(ctx context.Context, id, name string, before time.Time) error
}

// Quota reads the quota of the project.
type Quota interface {
	// Room returns the quota and its use now. Others may use it too.
	Room(ctx context.Context) (reconfigure.Room, error)
}

// Deps has the adapters that runs work with.
type Deps struct {
	Terraform func(shard string) Terraform
	Cloud     Cloud
	Quota     Quota
	// FreePorts returns how many more ports the cloud admits. Nil: that is unknown.
	FreePorts func(ctx context.Context) (int, error)
}
