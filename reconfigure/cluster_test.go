package reconfigure_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func sharded(per int, max ...int) reconfigure.Cluster {
	c := reconfigure.Cluster{Control: reconfigure.Control{Name: "head"},
		Settings: reconfigure.Settings{NodesPerState: per}}
	for i, name := range []string{"a", "b"}[:len(max)] {
		c.Groups = append(c.Groups, reconfigure.NodeGroup{Name: name, Prefix: name, Width: 4, Max: max[i],
			KeepPorts: name == "a"})
	}
	return c
}

func TestShardOfANewNode(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster reconfigure.Cluster
		want    map[string]string
	}{
		"the limit of one state": {sharded(200, 100, 100), map[string]string{"a0001": "", "b0100": ""}},
		"one more": {sharded(200, 100, 101),
			map[string]string{"a0001": "a-0", "a0100": "a-0", "b0001": "b-0", "b0101": "b-0"}},
		"large groups": {sharded(200, 600, 201),
			map[string]string{"a0200": "a-0", "a0201": "a-1", "a0400": "a-1", "a0600": "a-2", "b0201": "b-1"}},
		"no limit":        {sharded(0, 9000), map[string]string{"a9000": ""}},
		"no compute node": {sharded(1, 600), map[string]string{"head": "", "a0601": "", "stranger": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for node, want := range tc.want {
				if got := tc.cluster.Shard(node); got != want {
					t.Errorf("%s: %q, want %q", node, got, want)
				}
			}
		})
	}
}

func TestEntryOfANodeWithoutInstance(t *testing.T) {
	c := sharded(0, 9, 9)
	was := reconfigure.Spec{Group: "a", ImageID: "i", FlavorID: "f", NetworkID: "n", Shard: "a-0"}
	port := reconfigure.Spec{Group: "a", NetworkID: "n", Shard: "a-0"}
	for name, tc := range map[string]struct {
		node string
		was  reconfigure.Spec
		want reconfigure.Spec
		kept bool
	}{
		"its port":                   {"a0001", was, port, true},
		"its port, unchanged":        {"a0001", port, port, true},
		"no port to keep":            {"a0001", reconfigure.Spec{}, reconfigure.Spec{}, false},
		"a group without kept ports": {"b0001", was, reconfigure.Spec{}, false},
		"not declared":               {"a0010", was, reconfigure.Spec{}, false},
		"the control node":           {"head", was, reconfigure.Spec{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, kept := c.WithoutInstance(tc.node, tc.was)
			if kept != tc.kept || got != tc.want || got.HasInstance() {
				t.Errorf("%+v, %t", got, kept)
			}
		})
	}
	if !was.HasInstance() {
		t.Error("HasInstance is false for an entry with an image")
	}
}

func TestPlanOfOneShard(t *testing.T) {
	in := func(shard string) reconfigure.Spec { return reconfigure.Spec{ImageID: "i", Shard: shard} }
	seen := snapshot.Snapshot{
		Desired: map[string]reconfigure.Spec{"head": in(""), "n1": in("g-0"), "n2": in("g-1")},
		// its removal was interrupted
		Instances: map[string]reconfigure.Instance{"n4": {Made: reconfigure.Spec{Shard: "g-1"}}},
	}
	p := reconfigure.Plan{
		Shared:  true,
		Desired: map[string]reconfigure.Spec{"head": in(""), "n1": in("g-0"), "n3": in("g-1")},
		Changes: []reconfigure.Change{{Node: "head"}, {Node: "n1"}, {Node: "n2", Action: reconfigure.Remove},
			{Node: "n3"}, {Node: "n4", Action: reconfigure.Remove}},
	}
	for shard, want := range map[string]string{"": "head", "g-0": "n1", "g-1": "n[2-4]"} {
		part := p.InShard(shard, seen.Shard)
		if got := part.Nodes().String(); got != want || !part.Shared {
			t.Errorf("%q: changes of %s, want %s", shard, got, want)
		}
	}
	if diff := cmp.Diff(map[string]reconfigure.Spec{"n3": in("g-1")},
		p.InShard("g-1", seen.Shard).Desired); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "g-0", "g-1"}, reconfigure.Shards(seen.Desired)); diff != "" {
		t.Error(diff)
	}
}

func TestPathOfAnExistingControlNode(t *testing.T) {
	const always = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/opt/slurm/sbin:" +
		"/usr/local/slurm/bin:/usr/local/slurm/sbin"
	for conf, want := range map[string]string{
		"/etc/slurm/slurm.conf":       always,
		"/opt/slurm/etc/slurm.conf":   always,
		"/apps/slurm/etc/slurm.conf":  always + ":/apps/slurm/bin:/apps/slurm/sbin",
		"/slurm/slurm.conf":           always,
		"/usr/local/slurm/slurm.conf": always,
	} {
		if got := (reconfigure.ExistingControl{SlurmConf: conf}).Path(); got != want {
			t.Errorf("%s: %s, want %s", conf, got, want)
		}
	}
}
