package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var small = Flavor{Cores: 2, Memory: 2048, Disk: 10}

func clusterOf(groups ...reconfigure.NodeGroup) reconfigure.Cluster {
	source := reconfigure.Source{Flavor: "small"}
	for i := range groups {
		groups[i].Source, groups[i].Width = source, 1
	}
	return reconfigure.Cluster{Cloud: "lab", Control: reconfigure.Control{Name: "ctl", Source: source}, Groups: groups}
}

func TestNodesArePlacedOverTheHosts(t *testing.T) {
	nodes := reconfigure.NodeGroup{Prefix: "n", Max: 4}
	for name, tc := range map[string]struct {
		hosts []Limits
		want  map[string]string
	}{
		"one host": {
			[]Limits{{Cores: 2, Memory: 2048}},
			map[string]string{"ctl": "", "n1": "", "n2": "", "n3": "", "n4": ""},
		},
		"two alike": {
			[]Limits{{Cores: 16, Memory: 16000}, {Cores: 16, Memory: 16000}},
			map[string]string{"ctl": "", "n1": "host-1", "n2": "", "n3": "host-1", "n4": ""},
		},
		"one has three times as much": {
			[]Limits{{Cores: 8}, {Cores: 24}},
			map[string]string{"ctl": "", "n1": "host-1", "n2": "host-1", "n3": "host-1", "n4": "host-1"},
		},
		"no limits": {
			[]Limits{{}, {}}, map[string]string{"ctl": "", "n1": "host-1", "n2": "", "n3": "host-1", "n4": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Place(tc.hosts, Flavors{"small": small}, clusterOf(nodes))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRoomIsThatOfEachHostAndOfAll(t *testing.T) {
	table := []Limits{{Cores: 8, Memory: 16000}, {Cores: 4, Memory: 8000, Instances: 3}}
	one := reconfigure.Use{Instances: 1, Cores: 2, RAM: 2048}
	got := Room(table, Flavors{"small": small}, map[string]reconfigure.Use{"": one, "host-1": one})
	flavors := map[string]reconfigure.Use{"2x2048x10": one}
	want := reconfigure.Room{
		Limit: reconfigure.Use{Instances: -1, Cores: 12, RAM: 24000}, Used: one.Plus(one), Flavors: flavors,
		Shards: map[string]reconfigure.Room{
			"":       {Limit: reconfigure.Use{Instances: -1, Cores: 8, RAM: 16000}, Used: one, Flavors: flavors},
			"host-1": {Limit: reconfigure.Use{Instances: 3, Cores: 4, RAM: 8000}, Used: one, Flavors: flavors},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Shards["host-1"], got.In("host-1")); diff != "" {
		t.Error(diff)
	}
}
