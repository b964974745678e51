package reconcile

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Look is the result of the worker's last comparison, for the next one and for reports.
type Look struct {
	Time     time.Time `json:"time"`
	Findings []Finding `json:"findings,omitempty"`
	// Since has the time of the first comparison in a row that had a finding, by node and kind.
	Since map[string]time.Time `json:"since,omitempty"`
	// Tried has the time of the last fix of a finding, by node and kind.
	Tried       map[string]time.Time   `json:"tried,omitempty"`
	Unreachable []snapshot.Unreachable `json:"unreachable,omitempty"`
	// Checked has the times of the last health checks of nodes whose group has an interval.
	Checked map[string]time.Time `json:"checked,omitempty"`
	// Nodes counts the nodes as each source had them.
	Nodes []Count `json:"nodes,omitempty"`
}

// since returns the times of findings: that of the last comparison, if it had the finding.
func (l Look) since(findings []Finding, now time.Time) map[string]time.Time {
	times := make(map[string]time.Time, len(findings))
	for _, f := range findings {
		key := f.Node + " " + string(f.Kind)
		times[key] = now
		if was, known := l.Since[key]; known && was.Before(now) {
			times[key] = was
		}
	}
	return times
}

// SinceOf returns the time of the first comparison that found this at one of the nodes; zero if unknown.
func (l Look) SinceOf(nodes nodeset.NodeSet, kind Kind) (first time.Time) {
	for node := range nodes.All() {
		if t, known := l.Since[node+" "+string(kind)]; known && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// StaleAfter is the number of intervals after which a Look is too old to compare with. It is more than one, since a
// comparison may come late.
const StaleAfter = 4

// again is the time after which a finding is fixed again. Otherwise a fix that does not help, such as a removal that
// the cloud refuses, would fill the journal with requests that end in the same way.
const again = time.Hour

// Next returns the findings that the worker fixes unattended after another comparison, and the Look to keep. A
// finding that occurs once may be an intermediate state, so the previous comparison must also have it, and must not
// be older than stale.
func (l Look) Next(
	cluster reconfigure.Cluster, seen snapshot.Snapshot, findings []Finding, stale time.Duration,
) (fix []Finding, next Look) {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Kind.Note() && f.Fix == None })
	next = Look{Time: seen.Time, Findings: findings, Tried: maps.Clone(l.Tried), Unreachable: seen.Unreachable(),
		Nodes: Counts(cluster, seen)}
	if next.Tried == nil {
		next.Tried = map[string]time.Time{}
	}
	maps.DeleteFunc(
		next.Tried,
		func(_ string, at time.Time) bool { return seen.Time.Sub(at) >= again || at.After(seen.Time) },
	)
	next.Since = l.since(findings, seen.Time)
	if age := seen.Time.Sub(l.Time); age <= 0 || age > stale {
		return nil, next
	}
	for _, f := range Unattended(cluster, seen, Confirm(l.Findings, findings)) {
		what := f.Node + " " + string(f.Kind) + f.Port
		if _, tried := next.Tried[what]; !tried {
			next.Tried[what] = seen.Time
			fix = append(fix, f)
		}
	}
	return fix, next
}

// Unattended returns the findings that the worker may fix without an administrator: a cloud node with leftovers that
// Slurm does not use, or one that Slurm waits for in vain. For persistent nodes, whose instances must stay, the
// worker starts slurmd, ends leftover drains of this tool, and adopts instances. It skips undeclared nodes, since
// somebody may be editing the declaration, and nodes that an administrator has taken out of use and may be working
// on.
func Unattended(cluster reconfigure.Cluster, seen snapshot.Snapshot, findings []Finding) []Finding {
	harmless := map[Kind][]Fix{
		Orphan:     {Delete},
		Doubled:    {Delete},
		LeakedPort: {Delete},
		Leaked:     {Suspend},
		PowersDown: {Suspend},
		PowersUp:   {Resume},
		Lost:       {Suspend},
		Tainted:    {Suspend, Resume},
		Unfinished: {Suspend, Resume},
		SetDown:    {HandBack},
		Forgotten:  {HandBack},
		Aged:       {Suspend, Retire},
	}
	clouds := cluster.Nodes().Difference(cluster.Persistent())
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		if f.Kind == Unadopted { // the node itself does not change
			return f.Fix != Resume
		}
		if f.Kind == Silent {
			return f.Fix != Resume || !unanswered(seen.States[f.Node])
		}
		if f.Kind == Drained {
			return f.Fix != Update || attended(seen.States[f.Node])
		}
		if f.Kind == Aged && f.Fix == Renew { // the declaration of the group asks for it
			return attended(seen.States[f.Node])
		}
		return !slices.Contains(harmless[f.Kind], f.Fix) || !clouds.Contains(f.Node) || attended(seen.States[f.Node])
	})
}

// unanswered reports whether Slurm itself set a node DOWN, since its slurmd does not answer, and no administrator
// works on it (slurmctld, set_node_down_ptr).
func unanswered(s reconfigure.NodeState) bool {
	return !s.HasAny(reconfigure.NodeMaintenance|reconfigure.NodeDrain|reconfigure.NodeFail) &&
		(s.Reason == "" || strings.HasPrefix(s.Reason, "Not responding"))
}

// attended reports whether an administrator has, or may have, taken a node out of use: the node has a drain that is
// not ours, is in maintenance, or was set DOWN by neither this tool nor Slurm's power saving. A node that does not
// answer is DOWN too, until power saving powers it down after SuspendTime.
func attended(s reconfigure.NodeState) bool {
	const power = reconfigure.NodePoweredDown | reconfigure.NodePoweringDown | reconfigure.NodePoweringUp
	down := s.Down() && !s.HasAny(power)
	return s.Has(reconfigure.NodeMaintenance) ||
		(s.HasAny(reconfigure.NodeDrain|reconfigure.NodeFail) || down) && !s.Ours()
}
