package slurmconf_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

func TestJobsGetTheSmallestNodesThatFit(t *testing.T) {
	sizes := map[string]reconfigure.Hardware{
		"s": {CPUs: 2, RealMemory: 4000}, "m": {CPUs: 4, RealMemory: 4000}, "l": {CPUs: 4, RealMemory: 16000},
		"g": {CPUs: 1, RealMemory: 1000},
	}
	group := func(name, size, gres string) reconfigure.NodeGroup {
		return reconfigure.NodeGroup{Name: name, Source: reconfigure.Source{Flavor: size}, Gres: gres}
	}
	for _, c := range []struct {
		name   string
		groups []reconfigure.NodeGroup
		want   map[string]int
	}{
		{"nothing", nil, map[string]int{}},
		{"one", []reconfigure.NodeGroup{group("a", "l", "")}, map[string]int{"a": 1}},
		{"memory before CPUs", []reconfigure.NodeGroup{group("a", "l", ""), group("b", "m", ""), group("c", "s", "")},
			map[string]int{"a": 3, "b": 2, "c": 1}},
		{"equal ones", []reconfigure.NodeGroup{group("a", "m", ""), group("b", "s", ""), group("c", "m", "")},
			map[string]int{"a": 2, "b": 1, "c": 2}},
		{"resources last", []reconfigure.NodeGroup{group("a", "g", "gpu:a100:4,tmp:100G"), group("b", "l", ""),
			group("c", "g", "gpu:1")}, map[string]int{"a": 3, "b": 1, "c": 2}},
		{"a flavor that is not there", []reconfigure.NodeGroup{group("a", "none", ""), group("b", "l", "")},
			map[string]int{"b": 1}},
		{"a group of an ordinary partition", []reconfigure.NodeGroup{group("ordinary", "s", ""), group("b", "l", "")},
			map[string]int{"b": 1, "ordinary": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hardware := map[string]reconfigure.Hardware{}
			fresh := reconfigure.Partition{Name: "fresh", Fresh: true}
			for _, g := range c.groups {
				if size, there := sizes[g.Flavor]; there {
					hardware[g.Name] = size
				}
				if g.Name != "ordinary" {
					fresh.Groups = append(fresh.Groups, g.Name)
				}
			}
			before := maps.Clone(hardware)
			slurmconf.Weigh(reconfigure.Cluster{Groups: c.groups, Partitions: []reconfigure.Partition{
				fresh, {Name: "main", Groups: []string{"ordinary"}},
			}}, hardware)
			got := map[string]int{}
			for name, h := range hardware {
				got[name] = h.Weight
				if h.Weight = 0; h != before[name] {
					t.Errorf("the hardware of %s became %+v", name, h)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("weights (-want +got):\n%s", d)
			}
		})
	}
}
