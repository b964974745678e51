package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// agedShare limits how many nodes of a group are retired for their age: only while at most one node in agedShare, and
// at least one, is out of use for any reason. So a group that was made on one day does not lose all nodes at once.
const agedShare = 10

// aged lists the nodes whose instances are older than the maximum of their group. The oldest ones get a fix, as many as
// may be out of use at a time; the order does not depend on the jobs, so that two comparisons choose the same nodes. A
// node that Slurm does not use, or that was drained, reserved or put into maintenance, gets none. Neither does a node
// with another finding, which is in others, or with a second instance, even if that is too young for a finding.
func (c comparison) aged(others []Finding) []Finding {
	differs := map[string]bool{}
	for _, f := range others {
		differs[f.Node] = differs[f.Node] || !f.Kind.Note()
	}
	var all []Finding
	for _, g := range c.cluster.Groups {
		if g.MaxAge == 0 {
			continue
		}
		all = append(all, c.agedIn(g, differs)...)
	}
	return all
}

func (c comparison) agedIn(g reconfigure.NodeGroup, differs map[string]bool) []Finding {
	may := max(1, g.Max/agedShare)
	var old []Finding
	for node := range g.Nodes().All() {
		v := c.view(node)
		if away(v.state) {
			may--
		}
		if c.busy.Nodes.Contains(node) || !c.seen.Aged(c.cluster, node) || v.state.PoweringDown() {
			continue
		}
		age := c.seen.Time.Sub(c.seen.Fresh(c.cluster, node)).Truncate(time.Hour)
		f := Finding{Node: node, Kind: Aged,
			Detail: fmt.Sprintf("its instance was made %s ago, but its maximum age is %s", days(age), days(g.MaxAge))}
		switch {
		case differs[node] || len(v.strange) > 0 || !c.fixable():
		case c.seen.Rests(c.cluster, node):
			f.Fix = Suspend
		case !v.state.Usable() || v.state.HasAny(reconfigure.NodeReserved|reconfigure.NodeMaintenance):
		case c.persistent.Contains(node) && !v.state.Cloud():
			f.Fix = Renew
		case v.state.Cloud() && !c.persistent.Contains(node):
			f.Fix = Retire
		}
		old = append(old, f)
	}
	slices.SortStableFunc(old, func(a, b Finding) int {
		return cmp.Compare(c.seen.Fresh(c.cluster, a.Node).UnixNano(), c.seen.Fresh(c.cluster, b.Node).UnixNano())
	})
	for i, f := range old {
		switch {
		case f.Fix != Retire && f.Fix != Renew:
		case may <= 0:
			old[i].Fix = None
			old[i].Detail += "; it waits for other nodes of its group, of which " + fmt.Sprint(max(1, g.Max/agedShare)) +
				" may be out of use at a time"
		default:
			may--
		}
	}
	return old
}

// away reports whether Slurm cannot use a node for another reason than power saving. This includes a node that will
// be powered down when its jobs have ended.
func away(s reconfigure.NodeState) bool {
	return !s.Usable() && !s.PoweredDown() && !s.Has(reconfigure.NodePoweringDown) && !s.PoweringUp()
}

// days returns a duration in days and hours.
func days(d time.Duration) string {
	n, hours := d/(24*time.Hour), d%(24*time.Hour)/time.Hour
	switch {
	case n == 0:
		return fmt.Sprintf("%dh", hours)
	case hours == 0:
		return fmt.Sprintf("%dd", n)
	}
	return fmt.Sprintf("%dd%dh", n, hours)
}

// retire makes Slurm power down the nodes whose instances are too old, when their jobs have ended. It first asks Slurm
// again which of them it uses, since one may have been drained meanwhile.
func (r Reconciler) retire(ctx context.Context, c Comparison, told func(Finding, error)) {
	old := with(c.Findings, Retire)
	if len(old) == 0 {
		return
	}
	var names []string
	for _, f := range old {
		names = append(names, f.Node)
	}
	power := r.Scheduler(c.Seen.Instances[r.Cluster.Control.Name])
	states, failure := power.States(ctx, nodeset.Of(names...))
	now, err := r.work(ctx)
	failure = cmp.Or(failure, err)
	busy := now.busy(c.work)
	var going nodeset.NodeSet
	for _, f := range old {
		if failure == nil && !now.whole && !busy.Contains(f.Node) && states[f.Node].Usable() {
			going = going.Union(nodeset.Of(f.Node))
		}
	}
	if failure == nil && !going.Empty() {
		failure = power.PowerDownASAP(ctx, going, reconfigure.AgedReason)
	}
	for _, f := range old {
		err := failure
		if err == nil && !going.Contains(f.Node) {
			err = fmt.Errorf("%s is skipped: a request has come for it, or Slurm no longer uses it", f.Node)
		}
		told(f, err)
	}
}
