package reconfigure_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// halls is a cluster with three node groups and three partitions. The partitions named all-… are all or nothing.
func halls() reconfigure.Cluster {
	return reconfigure.Cluster{
		Groups: []reconfigure.NodeGroup{{Name: "a", Prefix: "a", Width: 1, Max: 9},
			{Name: "b", Prefix: "b", Width: 1, Max: 9}, {Name: "c", Prefix: "c", Width: 1, Max: 9}},
		Partitions: []reconfigure.Partition{
			{Name: "all-a", Groups: []string{"a"}, AllOrNothing: true},
			{Name: "all-ab", Groups: []string{"a", "b"}, AllOrNothing: true},
			{Name: "some-b", Groups: []string{"b"}},
		},
	}
}

func job(id int64, partition string, nodes ...string) reconfigure.Job {
	return reconfigure.Job{ID: id, Nodes: nodeset.Of(nodes...), Partition: partition}
}

func TestAllOrNothingIsDeclaredByThePartition(t *testing.T) {
	for name, tc := range map[string]struct {
		job  reconfigure.Job
		want bool
	}{
		"declared":                          {job(1, "all-ab", "b1"), true},
		"not declared":                      {job(1, "some-b", "b1"), false},
		"an undeclared partition":           {job(1, "other", "a1"), false},
		"all possible partitions":           {job(1, "", "a1", "a2"), true},
		"not all possible partitions":       {job(1, "", "b1"), false},
		"only one has both groups":          {job(1, "", "a1", "b1"), true},
		"no partition has the group":        {job(1, "", "c1"), false},
		"nodes that are no longer declared": {job(1, "all-a", "a1", "x1"), true},
	} {
		if got := halls().AllOrNothing(tc.job); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMergedHasEachJobOnce(t *testing.T) {
	jobs := []reconfigure.Job{job(2, "", "a3"), job(1, "", "a1"), job(2, "", "a2", "a3")}
	if diff := cmp.Diff([]reconfigure.Job{job(2, "", "a2", "a3"), job(1, "", "a1")},
		reconfigure.Merged(jobs)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"a1": 1, "a2": 1, "a3": 1}, reconfigure.Waiting(jobs)); diff != "" {
		t.Error(diff)
	}
}
