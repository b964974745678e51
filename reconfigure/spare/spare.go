// Package spare decides which cloud nodes Slurm is asked to power up, and not to suspend, so that each node group has
// its declared number of idle nodes for the next jobs. It chooses no node for a job: that is Slurm's. Decide is pure; a
// worker asks for the facts, and carries the decision out.
package spare

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// rest is the time for which a node that has failed, and a group whose breaker is open, get no spare node. A job's
// resume tries them meanwhile.
const rest = time.Hour

// Facts has what a decision needs.
type Facts struct {
	Now    time.Time
	States map[string]reconfigure.NodeState
	// Stopped has the nodes whose instances are stopped. They come up soonest.
	Stopped nodeset.NodeSet
	// Busy has the nodes of requests without an outcome.
	Busy nodeset.NodeSet
	// Failed has the times of failures, by node, if nothing has happened to the node since.
	Failed map[string]time.Time
	// Health has the failures of groups, by name.
	Health map[string]reconfigure.Health
}

// Busy returns the nodes of requests without an outcome; false if one of them is for the whole cluster, so that nothing
// is decided now.
func Busy(pending []reconfigure.Request) (busy nodeset.NodeSet, decides bool) {
	for _, request := range pending {
		if request.Nodes.Empty() {
			return nodeset.NodeSet{}, false
		}
		busy = busy.Union(request.Open())
	}
	return busy, true
}

// Failed returns the times of failures from the journal's last event of each node.
func Failed(moves map[string]reconfigure.Event) map[string]time.Time {
	failed := map[string]time.Time{}
	for node, e := range moves {
		if e.Level == reconfigure.Failed {
			failed[node] = e.Time
		}
	}
	return failed
}

// Decision is what to ask Slurm for.
type Decision struct {
	Up   nodeset.NodeSet // to power up
	Keep nodeset.NodeSet // not to suspend: the spare nodes that are idle or come up, and those of Up
	// Over has, beyond the hours of their group, the nodes that have been idle for longer than SuspendTime. A release
	// of Slurm whose exceptions cannot change while it runs does not suspend them.
	Over nodeset.NodeSet
}

// Declared reports whether a group of the cluster has spare nodes.
func Declared(c reconfigure.Cluster) bool { return !nodes(c).Empty() }

// nodes returns the cloud nodes of the groups that declare spare nodes.
func nodes(c reconfigure.Cluster) (all nodeset.NodeSet) {
	for _, g := range c.Groups {
		if g.Spare > 0 {
			all = all.Union(g.CloudNodes())
		}
	}
	return all
}

// Decide returns what to ask Slurm for now. A node that is idle or comes up without a job counts as spare; one that a
// request withholds for a moment counts too, so that no other is made instead.
func Decide(c reconfigure.Cluster, f Facts) (d Decision) {
	room := newRoom(c, f.States)
	for _, g := range c.Groups {
		if g.Spare == 0 {
			continue
		}
		up, keep, over := decide(c, g, f, room)
		d.Up, d.Keep, d.Over = d.Up.Union(up), d.Keep.Union(keep).Union(up), d.Over.Union(over)
	}
	return d
}

func decide(c reconfigure.Cluster, g reconfigure.NodeGroup, f Facts, room room) (up, keep, over nodeset.NodeSet) {
	spare := 0
	if g.SpareHours.Contains(f.Now) {
		spare = g.Spare
	}
	var ready, idle, asleep []string
	for node := range g.CloudNodes().All() {
		s := f.States[node]
		switch {
		case waits(s):
			ready = append(ready, node)
			if s.Usable() && !s.IdleSince.IsZero() && f.Now.Sub(s.IdleSince) > c.Slurm.SuspendTime &&
				!s.Has(reconfigure.NodePlanned) && !f.Busy.Contains(node) {
				idle = append(idle, node)
			}
		case sleeps(s) && !f.Busy.Contains(node) && f.Now.Sub(f.Failed[node]) >= rest:
			asleep = append(asleep, node)
		}
	}
	// those that come up are no reason to suspend one that is there
	slices.SortStableFunc(ready, func(a, b string) int { return coming(f.States[a]) - coming(f.States[b]) })
	slices.SortStableFunc(asleep, func(a, b string) int { return rank(f.Stopped, a) - rank(f.Stopped, b) })
	keep = nodeset.Of(ready[:min(spare, len(ready))]...)
	if spare == 0 {
		over = nodeset.Of(idle...)
	}
	for _, node := range asleep[:min(len(asleep), max(0, spare-len(ready)), try(c, f.Health[g.Name], f.Now))] {
		if room.take(g.Name) {
			up = up.Union(nodeset.Of(node))
		}
	}
	return up, keep, over
}

// coming puts nodes that come up last.
func coming(s reconfigure.NodeState) int {
	if s.PoweringUp() {
		return 1
	}
	return 0
}

// rank puts stopped nodes first.
func rank(stopped nodeset.NodeSet, node string) int {
	if stopped.Contains(node) {
		return 0
	}
	return 1
}

// waits reports whether a node is there, or comes, for a job that does not exist yet.
func waits(s reconfigure.NodeState) bool {
	const out = reconfigure.NodeReserved | reconfigure.NodeMaintenance | reconfigure.NodeFail | reconfigure.NodeDown
	if !s.Cloud() || s.Busy || s.HasAny(out) {
		return false
	}
	return s.Usable() || s.PoweringUp() && !s.Drained() || s.Up() && s.Withheld()
}

// sleeps reports whether Slurm can power a node up for a job.
func sleeps(s reconfigure.NodeState) bool {
	const out = reconfigure.NodeReserved | reconfigure.NodeMaintenance | reconfigure.NodeFail | reconfigure.NodeDrain |
		reconfigure.NodeDown | reconfigure.NodeNotResponding
	return s.Cloud() && s.PoweredDown() && !s.PoweringUp() && !s.PoweringDown() && !s.Busy && !s.HasAny(out)
}

// try returns how many nodes of a group may be asked for: one at a time after a failure, and none while the group
// pauses.
func try(c reconfigure.Cluster, h reconfigure.Health, now time.Time) int {
	_, cools := plan.CoolsDown(h, now, c.Settings)
	switch {
	case cools:
		return 0
	case plan.Broken(h, c.Settings) && (now.Sub(h.Last.Time) < rest || plan.Probing(h, now, c.Slurm) != ""):
		return 0
	case h.Failures > 0 || !h.Full.Time.IsZero():
		return 1
	}
	return nodeset.MaxNodes
}

// room has how many more nodes the limits over groups allow.
type room struct {
	limits []reconfigure.Limit
	left   []int
}

func newRoom(c reconfigure.Cluster, states map[string]reconfigure.NodeState) room {
	r := room{limits: c.Limits, left: make([]int, len(c.Limits))}
	for i, l := range c.Limits {
		r.left[i] = l.Max
		for _, g := range c.Groups {
			if !slices.Contains(l.Groups, g.Name) {
				continue
			}
			r.left[i] -= g.Nodes().Where(func(node string) bool {
				return g.Persistent().Contains(node) || !states[node].PoweredDown() || states[node].PoweringUp()
			}).Len()
		}
	}
	return r
}

// take counts a node of a group, if all limits over the group allow it.
func (r room) take(group string) bool {
	var over []int
	for i, l := range r.limits {
		if slices.Contains(l.Groups, group) {
			over = append(over, i)
			if r.left[i] <= 0 {
				return false
			}
		}
	}
	for _, i := range over {
		r.left[i]--
	}
	return true
}
