package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// crowdedOut is the nodes that the project's quota has no room for. To find that out by the cloud's refusals would cost the others of their batch time, and leave the
// choice to chance. Where the cloud does not tell, Terraform finds it out.
func (b *batch) crowdedOut(ctx context.Context, plan reconfigure.Plan) reconfigure.Failures {
	wanted := b.newcomers(plan)
	if len(wanted) == 0 {
		return nil
	}
	const patience = 15 * time.Second // it saves time, so it must not cost much
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	room, err := b.Surveyor.Room(ctx)
	if err != nil {
		b.note(ctx, "", "the cloud does not tell how much room there is: "+err.Error())
		return nil
	}
	return fit(room, wanted)
}

// newcomers is the changes that take more of the quota than before, those first for which the most jobs wait: what comes first gets the room. The control node
// comes before all, as without it there is no Slurm. What is removed meanwhile leaves no room for them, since nobody knows what Terraform does first.
func (b *batch) newcomers(plan reconfigure.Plan) []reconfigure.Change {
	news := slices.DeleteFunc(slices.Clone(plan.Changes), func(c reconfigure.Change) bool {
		instance := b.instances[c.Node]
		return c.Action != reconfigure.Create && (c.Action != reconfigure.Replace || instance.ID != "")
	})
	waiting := waiters(plan.Jobs)
	slices.SortStableFunc(news, func(a, other reconfigure.Change) int {
		if control := b.cluster.Control.Name; a.Node == control || other.Node == control {
			return cmp.Compare(rank(a.Node == control), rank(other.Node == control))
		}
		return cmp.Compare(waiting[other.Node], waiting[a.Node])
	})
	return news
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// waiters is how many jobs wait for each node. Several requests may name one job, each with some of its nodes.
func waiters(jobs []reconfigure.Job) map[string]int {
	nodes := map[int64]nodeset.NodeSet{}
	for _, job := range jobs {
		nodes[job.ID] = nodes[job.ID].Union(job.Nodes)
	}
	waiting := map[string]int{}
	for _, set := range nodes {
		for node := range set.All() {
			waiting[node]++
		}
	}
	return waiting
}

// fit gives new instances room, in order, and says of those that there is none for why. One that does not fit keeps no smaller one after it from fitting.
func fit(room reconfigure.Room, wanted []reconfigure.Change) reconfigure.Failures {
	var (
		refused = reconfigure.Failures{}
		given   reconfigure.Use
	)
	for _, c := range wanted {
		takes := room.Takes(c.Spec.FlavorID)
		if err := shortage(room, given, takes); err != nil {
			refused[c.Node] = reconfigure.Classify(reconfigure.ClassQuota, err)
			continue
		}
		given = given.Plus(takes)
	}
	return refused
}

// shortage says what there is not enough of, in addition to what is given to others.
func shortage(room reconfigure.Room, given, takes reconfigure.Use) error {
	for _, r := range []struct {
		limit, used, given, takes int
		unit                      string
	}{
		{room.Limit.Instances, room.Used.Instances, given.Instances, takes.Instances, "instances"},
		{room.Limit.Cores, room.Used.Cores, given.Cores, takes.Cores, "cores"},
		{room.Limit.RAM, room.Used.RAM, given.RAM, takes.RAM, "MiB of memory"},
	} {
		if r.limit < 0 || r.takes == 0 || r.used+r.given+r.takes <= r.limit {
			continue
		}
		text := fmt.Sprintf("%d of %d %s are in use", r.used, r.limit, r.unit)
		if r.given > 0 {
			text += fmt.Sprintf(" besides %d for nodes that come first", r.given)
		}
		if r.takes > 1 {
			text += fmt.Sprintf("; it takes %d", r.takes)
		}
		return errors.New(text)
	}
	return nil
}
