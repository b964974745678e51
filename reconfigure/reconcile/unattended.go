package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Look is what the last comparison of the worker found: for the next one, and for reports.
type Look struct {
	Time     time.Time `json:"time"`
	Findings []Finding `json:"findings,omitempty"`
	// Tried is when something was last done about a finding, by node and kind.
	Tried       map[string]time.Time   `json:"tried,omitempty"`
	Unreachable []snapshot.Unreachable `json:"unreachable,omitempty"`
}

// StaleAfter is how many of the intervals between two comparisons a Look is worth comparing with: the worker may have
// been busy meanwhile, for as long as an instance takes to be made.
const StaleAfter = 4

// again is how long what was done about a finding has time to help. What does not help by then, a removal that the
// cloud refuses for instance, would otherwise fill the journal with requests that end alike.
const again = time.Hour

// Next is what to fix after another comparison without anybody having asked, and the Look to keep. What is seen once
// may be a moment between two steps, so a finding must have been there at the comparison before, too; one that is
// longer past than stale says nothing about now.
func (l Look) Next(
	cluster reconfigure.Cluster, seen snapshot.Snapshot, findings []Finding, stale time.Duration,
) (fix []Finding, next Look) {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Kind.Note() })
	next = Look{Time: seen.Time, Findings: findings, Tried: maps.Clone(l.Tried), Unreachable: seen.Unreachable()}
	if next.Tried == nil {
		next.Tried = map[string]time.Time{}
	}
	maps.DeleteFunc(
		next.Tried,
		func(_ string, at time.Time) bool { return seen.Time.Sub(at) >= again || at.After(seen.Time) },
	)
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

// Unattended is those of the findings that may be fixed without anybody having asked: a cloud node has something left
// over that Slurm does not use, or is stuck on its way. It is never a persistent node, whose instance is there for
// good, but to be adopted; never one that is not declared, since the declaration may be in the middle of an edit; and
// never one that an administrator has taken out of use, and may be working at.
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
	}
	clouds := cluster.Nodes().Difference(cluster.Persistent())
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		if f.Kind == Unadopted { // nothing of the node itself is touched
			return f.Fix != Resume
		}
		return !slices.Contains(harmless[f.Kind], f.Fix) || !clouds.Contains(f.Node) || attended(seen.States[f.Node])
	})
}

// attended reports whether an administrator has taken a node out of use: it has a drain that is not ours, or is in
// maintenance. Or it may be so: it is DOWN, and neither we nor Slurm's power saving have done that. A node that does
// not answer is DOWN too; power saving takes it after SuspendTime, and then it counts no more.
func attended(s reconfigure.NodeState) bool {
	const power = reconfigure.NodePoweredDown | reconfigure.NodePoweringDown | reconfigure.NodePoweringUp
	down := s.Down() && !s.HasAny(power)
	return s.Has(reconfigure.NodeMaintenance) ||
		(s.HasAny(reconfigure.NodeDrain|reconfigure.NodeFail) || down) && !s.Ours()
}
