package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// sweep deletes instances of nodes that Terraform does not know. It writes an instance into its state when it has seen it made to the end; one that is killed
// meanwhile, or gets no answer, leaves an instance behind, beside which the next try would make a second one. The nodes whose orphans stay are named, with the
// reason. Where the cloud cannot be asked, none may be made, and none may go that Terraform has begun to make: it would forget that. Those that are there may go.
func (b *batch) sweep(ctx context.Context, plan reconfigure.Plan) reconfigure.Failures {
	making, removing := plan.Nodes(reconfigure.Create, reconfigure.Replace), plan.Nodes(reconfigure.Remove)
	orphans, instances, err := b.orphans(ctx, making.Union(removing))
	begun := removing.Where(func(node string) bool { return b.instances[node].ID == "" })
	switch {
	case err != nil && ctx.Err() != nil:
		return all(making.Union(begun), ctx.Err())
	case err != nil:
		return all(making.Union(begun), fmt.Errorf("nobody can tell whether there is an instance of it already: %w", err))
	case len(orphans) == 0:
		return nil
	}
	states, silence := b.states(ctx, instances)
	stay := reconfigure.Failures{}
	for node, ids := range orphans {
		change, _ := plan.Of(node)
		if err := b.cherished(node, instances[node], states[node], silence); err != nil && !change.Force {
			stay[node] = fmt.Errorf("left alone: there is instance %s of it, which Terraform does not know, and %w", strings.Join(ids, ", "), err)
		}
	}
	strays := nodeset.Collect(maps.Keys(orphans)).Difference(stay.Nodes())
	maps.Copy(stay, each(strays, func(node string) error {
		for _, id := range orphans[node] {
			if err := b.Sweeper.RemoveOrphan(ctx, id, node, anyAge()); err != nil {
				return fmt.Errorf("there is instance %s of it, which Terraform does not know and which is in the way: %w", id, err)
			}
			b.note(ctx, node, "instance "+id+" of it, which Terraform did not know, is deleted")
		}
		return nil
	}))
	return stay
}

// anyAge is later than any instance was made, however wrong the clocks are: nobody but us makes any, and we lead.
func anyAge() time.Time { return time.Now().AddDate(1, 0, 0) }

// orphans is the instances of some nodes that the cloud has and Terraform's state has not, and what the state has. It is read once more after the cloud has
// answered: an administrator may have had Terraform make one just now.
func (b *batch) orphans(ctx context.Context, nodes nodeset.NodeSet) (map[string][]string, map[string]reconfigure.Instance, error) {
	if nodes.Empty() {
		return nil, nil, nil
	}
	made, err := b.Sweeper.Made(ctx)
	if err != nil {
		return nil, nil, err
	}
	strays := func(known map[string]reconfigure.Instance) map[string][]string {
		found := map[string][]string{}
		for node := range nodes.All() {
			ids := slices.DeleteFunc(slices.Clone(made[node]), func(id string) bool { return id == known[node].ID })
			if len(ids) > 0 {
				found[node] = ids
			}
		}
		return found
	}
	if len(strays(b.instances)) == 0 {
		return nil, nil, nil
	}
	instances, err := b.Provisioner.Instances(ctx)
	return strays(instances), instances, err
}

// cherished says why an orphan is not to be deleted. Where Terraform's state has a part of the node, that is what it was about to make, and nobody has used it
// yet. Where it has nothing, the state itself may have been lost, and with it the knowledge of a whole cluster at work.
func (b *batch) cherished(node string, known reconfigure.Instance, state reconfigure.NodeState, silence error) error {
	begun := known.Node == node && known.ID == ""
	const hand = "if it is worth nothing, delete it by hand; if Terraform's state was lost, bring that back"
	switch {
	case state.Running() || state.Usable():
		return errors.New("it is in use by Slurm: " + hand)
	case begun:
		return nil
	case node == b.cluster.Control.Name:
		return errors.New("all of Slurm's state may be on it: " + hand)
	case silence != nil:
		return fmt.Errorf("nobody can tell whether a job runs on it, as Slurm does not answer: %w", silence)
	}
	return nil
}

// all has the same happen to each of some nodes.
func all(nodes nodeset.NodeSet, err error) reconfigure.Failures {
	failures := reconfigure.Failures{}
	for node := range nodes.All() {
		failures[node] = err
	}
	return failures
}
