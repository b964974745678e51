package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// learning is what a batch has to say of how node groups fare.
type learning struct {
	planned time.Time
	spared  nodeset.NodeSet // the nodes that were given up: their verdicts say nothing of their groups
	learnt  nodeset.NodeSet // the nodes whose verdicts were counted
}

// probe writes down, before anything is begun, which nodes try their groups: what is planned meanwhile shall not let another one through.
func (b *batch) probe(ctx context.Context) {
	for _, c := range b.plan.Changes {
		if group, ok := b.cluster.GroupOf(c.Node); ok && c.Probe {
			b.fares(ctx, group.Name, func(h reconfigure.Health) reconfigure.Health { return h.Trying(c.Node, time.Now().UTC()) })
		}
	}
}

// learn counts the verdicts that have come since it did so before.
func (b *batch) learn(ctx context.Context) {
	news := map[string][]reconfigure.Verdict{}
	for _, node := range slices.Sorted(maps.Keys(b.verdicts)) {
		if group, ok := b.cluster.GroupOf(node); ok && !b.learnt.Contains(node) && !b.spared.Contains(node) {
			news[group.Name] = append(news[group.Name], b.verdicts[node])
		}
	}
	b.learnt = nodeset.Collect(maps.Keys(b.verdicts))
	for _, group := range slices.Sorted(maps.Keys(news)) {
		b.fares(ctx, group, func(h reconfigure.Health) reconfigure.Health {
			return h.After(b.planned, time.Now().UTC(), news[group])
		})
	}
}

// fares writes down how a group fares, also when the time for a stage is over. That it cannot be written costs a count, and is never worth a failure.
func (b *batch) fares(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) {
	if err := b.Health.UpdateHealth(context.WithoutCancel(ctx), group, update); err != nil {
		b.note(ctx, "", "how group "+group+" fares could not be written down: "+err.Error())
	}
}

// crowd ends the way of nodes that there is no room for, and of cloud nodes that only jobs need which cannot begin without them: also of those whose instance was
// there already, as nobody else needs it. The latter are answered.
func (b *batch) crowd(ctx context.Context, failures reconfigure.Failures) nodeset.NodeSet {
	b.fail(ctx, failures)
	refused := maps.Clone(failures)
	maps.DeleteFunc(refused, func(_ string, err error) bool { return !reconfigure.ClassOf(err).NoRoom() })
	spare := b.plan.Where(func(c reconfigure.Change) bool { return c.ForJobs && !c.Probe }).Intersect(b.left()).Difference(b.cluster.Persistent())
	given := b.cluster.GiveUp(b.plan.Jobs, refused, spare)
	b.touched = b.touched.Union(given.Nodes())
	maps.Copy(refused, given)
	b.spared = b.spared.Union(refused.Nodes().Where(func(node string) bool { return errors.Is(refused[node], reconfigure.ErrGivenUp) }))
	b.fail(ctx, given)
	return given.Nodes()
}

// vacate removes what was made of nodes that were given up, at once: the room is for others, and to configure those takes minutes. What cannot be removed now is
// at the end of the batch. It MUST be this batch's turn with Terraform.
func (b *batch) vacate(ctx context.Context, nodes nodeset.NodeSet) {
	if nodes.Empty() {
		return
	}
	b.remove(ctx, nodes)
	if err := b.find(ctx); err != nil {
		return
	}
	b.touched = b.touched.Difference(nodes.Where(func(node string) bool { _, there := b.instances[node]; return !there }))
}
