package spare

import (
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Exceptions returns SuspendExcNodes (slurm.conf(5)) with these nodes to keep, from its present value: other cloud
// nodes of groups that declare spare nodes, with or without a count, are removed, and all other nodes stay. A count
// means other nodes in other releases (slurmctld, power_save.c), so the nodes to keep are named.
func Exceptions(c reconfigure.Cluster, is string, keep nodeset.NodeSet) string {
	ours := nodes(c)
	var all []string
	for _, part := range parts(is) {
		hosts, count, counted := strings.Cut(part, ":")
		set, err := nodeset.Parse(hosts)
		switch rest := set.Difference(ours); {
		case err != nil || set.Intersect(ours).Empty():
			all = append(all, part)
		case counted && !rest.Empty():
			all = append(all, hosts+":"+count) // of nodes of which some are not ours
		default:
			all = append(all, rest.Names()...)
		}
	}
	// names, since a release does not read a list in brackets beside a count
	for _, name := range keep.Names() {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}

// parts splits a list at the commas outside of brackets.
func parts(list string) (all []string) {
	depth, begin := 0, 0
	for i, r := range list + "," {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			if part := strings.TrimSpace(list[begin:i]); part != "" {
				all = append(all, part)
			}
			begin = i + 1
		}
	}
	return all
}
