package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// limit refuses the cloud nodes beyond a limit in the declaration, for every caller. Nodes for which most jobs wait
// come first. A persistent node always counts, with or without an instance. Nodes that the same plan removes also
// count, since they may still exist when the new ones are made.
func (p *planner) limit(l reconfigure.Limit, refused reconfigure.Failures) {
	existing := p.seen.Existing(p.cluster, l)
	var reserved, declared nodeset.NodeSet
	for _, g := range p.cluster.Groups {
		if slices.Contains(l.Groups, g.Name) {
			reserved, declared = reserved.Union(g.Persistent()), declared.Union(g.Nodes())
		}
	}
	used := existing.Union(reserved)
	wanted := p.where(func(c reconfigure.Change) bool {
		return c.Action == reconfigure.Create && declared.Contains(c.Node) && !used.Contains(c.Node) &&
			refused[c.Node] == nil
	}).Names()
	waiting := reconfigure.Waiting(p.jobs)
	slices.SortStableFunc(wanted, func(a, b string) int { return cmp.Compare(waiting[b], waiting[a]) })
	free := max(0, l.Max-used.Len())
	for _, node := range wanted[min(free, len(wanted)):] {
		refused[node] = reconfigure.Classify(reconfigure.ClassQuota, fmt.Errorf(
			"the limit of %d nodes for %s is reached: %d of them exist or are reserved", l.Max, l, used.Len()+free))
	}
}
