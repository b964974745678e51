package slurmconf

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Weigh sets the weights of the groups whose nodes serve one job each, by the hardware of their flavors, so that a
// job gets the smallest nodes that fit it. Groups without generic resources come first, then those with less memory,
// then those with fewer CPUs. Groups that are equal in this have the same weight. Other groups keep Slurm's default:
// a larger node that is up is better for a job than a smaller one that must boot first.
func Weigh(c reconfigure.Cluster, hardware map[string]reconfigure.Hardware) {
	var groups []reconfigure.NodeGroup
	for _, g := range c.Groups {
		if _, known := hardware[g.Name]; known && c.Fresh(g.Name) {
			groups = append(groups, g)
		}
	}
	compare := func(a, b reconfigure.NodeGroup) int {
		x, y := hardware[a.Name], hardware[b.Name]
		return cmp.Or(cmp.Compare(resources(a.Gres), resources(b.Gres)), cmp.Compare(x.RealMemory, y.RealMemory),
			cmp.Compare(x.CPUs, y.CPUs))
	}
	slices.SortFunc(groups, compare)
	weight := 0
	for i, g := range groups {
		if i == 0 || compare(groups[i-1], g) != 0 {
			weight++
		}
		h := hardware[g.Name]
		h.Weight = weight
		hardware[g.Name] = h
	}
}

// resources returns the number of generic resources of a node. A number with a unit, for example the bytes of a disk,
// counts as one.
func resources(gres string) int {
	sum := 0
	for _, item := range strings.FieldsFunc(gres, func(r rune) bool { return r == ',' }) {
		count := item[strings.LastIndex(item, ":")+1:]
		if n, err := strconv.Atoi(count); err == nil {
			sum += n
		} else {
			sum++
		}
	}
	return sum
}
