package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// overQuota returns the nodes without room in the project's quota, and those that are given up with them. Refusals of
// the cloud would cost the other nodes time, and the choice would be random. If the cloud does not report the quota,
// Terraform runs without this check.
func (t *run) overQuota(ctx context.Context, plan reconfigure.Plan, calls []*call) reconfigure.Failures {
	wanted := t.newcomers(plan)
	if len(wanted) == 0 {
		return nil
	}
	const longest = 15 * time.Second // the check saves time, so it must not take much
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	room, err := t.deps.Quota.Room(ctx)
	if err != nil {
		for _, c := range calls {
			c.In.note("the cloud does not say how much room there is: " + err.Error())
		}
		return nil
	}
	cluster, _ := t.Using()
	refused := fit(room.In(t.name), groups(wanted, plan.Jobs, cluster.AllOrNothing))
	if len(refused) > 0 {
		t.NoRoom(refused)
	}
	return refused
}

// admitsPorts reports whether a run that is Shared may make the missing kept ports together with its instances, which
// saves the provider's wait for the ports in a run of their own. All ports of the run are made before the first
// instance: so the cloud must have room for all, and they must be so few that Terraform makes them at the same time.
func (t *run) admitsPorts(ctx context.Context, plan reconfigure.Plan) bool {
	const few, longest = 40, 5 * time.Second
	ports, kept := plan.Provisioned().Len(), 0
	for _, spec := range plan.Desired {
		if !spec.HasInstance() {
			kept++
		}
	}
	ports += kept
	if !plan.Shared || kept == 0 || ports > few || t.name != reconfigure.DefaultShard || t.deps.FreePorts == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	free, err := t.deps.FreePorts(ctx)
	return err == nil && ports <= free
}

// newcomers returns the changes that take more of the quota than before, in the order in which they get room: the
// control node first, then those for which the most jobs wait. Removals in the same run free nothing for them, since
// the order of Terraform's changes is unknown.
func (t *run) newcomers(plan reconfigure.Plan) []reconfigure.Change {
	cluster, _ := t.Using()
	news := slices.DeleteFunc(slices.Clone(plan.Changes), func(c reconfigure.Change) bool {
		instance := t.state.Instances[c.Node]
		return c.Action != reconfigure.Create && (c.Action != reconfigure.Replace || instance.ID != "")
	})
	waiting := reconfigure.Waiting(plan.Jobs)
	slices.SortStableFunc(news, func(a, other reconfigure.Change) int {
		if control := cluster.Control.Name; a.Node == control || other.Node == control {
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

// group has new instances that get room together or not at all: a single one, or all instances of a job that gets all
// of its nodes or none.
type group struct {
	job     reconfigure.Job // zero: a single instance
	members []reconfigure.Change
}

// groups groups new instances, in their order. An instance that is also requested for another reason, such as a job
// that accepts fewer nodes, is also a separate group.
func groups(wanted []reconfigure.Change, jobs []reconfigure.Job, entire func(reconfigure.Job) bool) []group {
	members, alone := map[int64][]reconfigure.Change{}, map[string]bool{}
	waits := map[string][]reconfigure.Job{} // jobs that get all of their nodes or none
	for _, c := range wanted {
		alone[c.Node] = !c.ForJobs
	}
	for _, job := range reconfigure.Merged(jobs) {
		together := entire(job)
		for node := range job.Nodes.All() {
			if together {
				waits[node] = append(waits[node], job)
			} else {
				alone[node] = true
			}
		}
	}
	for _, c := range wanted {
		for _, job := range waits[c.Node] {
			members[job.ID] = append(members[job.ID], c)
		}
	}
	var all []group
	for _, c := range wanted {
		for _, job := range waits[c.Node] {
			if members[job.ID] != nil { // this is its first
				all = append(all, group{job, members[job.ID]})
				delete(members, job.ID)
			}
		}
		if alone[c.Node] || len(waits[c.Node]) == 0 {
			all = append(all, group{members: []reconfigure.Change{c}})
		}
	}
	return all
}

// fit gives room to groups of new instances, in order, and returns why there is none for the rest. A smaller group may
// fit after one that does not.
func fit(room reconfigure.Room, wanted []group) reconfigure.Failures {
	var (
		refused = reconfigure.Failures{}
		used    reconfigure.Use // by groups that have room
		has     = map[string]bool{}
	)
	for _, c := range wanted {
		lacking := slices.DeleteFunc(slices.Clone(c.members), func(m reconfigure.Change) bool { return has[m.Node] })
		takes, short, err := together(room, used, lacking)
		for _, m := range lacking {
			switch {
			case err == nil:
				has[m.Node] = true
				delete(refused, m.Node)
			case m.Node == short:
				refused[m.Node] = err
			case refused[m.Node] == nil:
				refused[m.Node] = plan.GivenUp(c.job, short, err)
			}
		}
		if err == nil {
			used = used.Plus(takes)
		}
	}
	return refused
}

// together returns what new instances take of the room. If one does not fit in addition to given and those before it,
// together returns the node of the first such instance, and why.
func together(
	room reconfigure.Room, given reconfigure.Use, members []reconfigure.Change,
) (takes reconfigure.Use, short string, err error) {
	for _, m := range members {
		one := room.Takes(m.Spec.FlavorID)
		if err := shortage(room, given.Plus(takes), one); err != nil {
			return takes, m.Node, reconfigure.Classify(reconfigure.ClassQuota, err)
		}
		takes = takes.Plus(one)
	}
	return takes, "", nil
}

// Shortage returns an error, without a class, if the room does not suffice for another instance of a flavor.
func Shortage(room reconfigure.Room, flavorID string) error {
	return shortage(room, reconfigure.Use{}, room.Takes(flavorID))
}

// shortage returns an error that names the first resource that does not suffice, in addition to given.
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
