package reconcile

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// checkShare limits how many nodes of a group are checked at a time: one in checkShare, and at least one. A check drains
// its node for seconds, and jobs that need the whole group must not wait for all of it.
const checkShare = 10

// checks returns the idle nodes whose last health check is older than the interval of their group, as findings that are
// only fixed, and the times of the last checks to keep. The checks are not differences of the sources, so Compare does
// not have them. The operation of a check asks Slurm again, and skips a node that has got a job.
func (l Look) checks(cluster reconfigure.Cluster, c Comparison) (due []Finding, checked map[string]time.Time) {
	differs := c.Differs()
	may := !c.Busy.Whole && len(c.Seen.Unreachable()) == 0
	checked = map[string]time.Time{}
	for _, g := range cluster.Groups {
		if g.HealthInterval == 0 {
			continue
		}
		var idle []string
		for node := range g.Nodes().All() {
			last := l.lastCheck(node, c)
			if !last.IsZero() {
				checked[node] = last
			}
			if may && checkable(c.Seen.States[node]) && !c.Busy.Nodes.Contains(node) && !differs.Contains(node) &&
				c.Seen.Time.Sub(last) >= g.HealthInterval {
				idle = append(idle, node)
			}
		}
		slices.SortStableFunc(idle, func(a, b string) int { return checked[a].Compare(checked[b]) })
		for _, node := range idle[:min(len(idle), max(1, g.Max/checkShare))] {
			checked[node] = c.Seen.Time
			due = append(due, Finding{Node: node, Kind: Unchecked, Fix: Check})
		}
	}
	return due, checked
}

// lastCheck returns the time of the node's last check: that of an earlier comparison, or of its last boot; zero if
// neither is known.
func (l Look) lastCheck(node string, c Comparison) time.Time {
	life := c.Seen.Lives[node]
	last := slices.MaxFunc([]time.Time{l.Checked[node], life.Configured, life.Registered}, time.Time.Compare)
	if last.After(c.Seen.Time) { // the clock was set back
		return time.Time{}
	}
	return last
}

// checkable reports whether Slurm has the node idle, with no job that begins there soon, and no administrator uses it.
func checkable(s reconfigure.NodeState) bool {
	return s.Usable() && !s.GivenToJob() &&
		!s.HasAny(reconfigure.NodeReserved|reconfigure.NodeMaintenance|reconfigure.NodePlanned)
}
